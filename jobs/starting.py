"""What starting a job changes, and the row of the attempt that it begins; shared by all ways to start."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    FromClause,
    bindparam,
    case,
    insert,
    literal,
    null,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.sql.dml import Insert

from jobs.answer import PutOff, StartReport
from jobs.due import AnySelect
from jobs.ground import Ground
from jobs.key import JobKey
from jobs.snapshot import StartedJob, claim_order
from jobs.state import AttemptState, JobState
from jobs.table import OWNER_UNITS
from uow.sql.clock import ticks_of
from uow.sql.planner import unforeseen
from uow.sql.types import ExactText, InstantTicks
from uow.text import clean_text

Handlers: TypeAlias = Collection[tuple[str, int]]
"""Names and versions."""

_OWNER: Final = "new_owner"
_HANDLERS: Final = "known_handlers"
_PUT_OFF: Final = "put_off_ticks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """Who starts jobs. handlers: those it has, None for any; jobs of others are put off."""

    owner: str
    handlers: Handlers | None = None
    put_off_seconds: float = 0.0

    @property
    def picky(self) -> bool:
        """Whether there may be jobs that it puts off."""
        return self.handlers is not None

    @property
    def parameters(self) -> dict[str, Any]:
        """What a statement of this module is executed with."""
        owner = {_OWNER: clean_text(self.owner, units=OWNER_UNITS)}
        if self.handlers is None:
            return owner
        return owner | known_parameters(self.handlers) | {_PUT_OFF: ticks_of(self.put_off_seconds)}


def known_parameters(handlers: Handlers) -> dict[str, Any]:
    """What a statement with `is_known` is executed with."""
    return {_HANDLERS: sorted(handlers)}


def is_known(job: FromClause) -> ColumnElement[bool]:
    """Whether the handler of a job is among those of `known_parameters`."""
    handlers: BindParameter[Any] = bindparam(_HANDLERS, expanding=True)
    return tuple_(job.c.handler, job.c.handler_version).in_(handlers)


def started_values(ground: Ground, token: ColumnElement[Any], *, picky: bool) -> dict[str, Any]:
    """The changes of a job that starts; with `picky` one that is not known is put off instead."""
    clock, columns = ground.clock, ground.job.c
    values: dict[str, Any] = {
        "state": literal(JobState.RUNNING.value, ExactText(16)),
        "queued_in": null(),
        "attempt_token": token,
        "attempt_count": columns.attempt_count + 1,
        "owner": bindparam(_OWNER, type_=ExactText(OWNER_UNITS)),
        "lease_expires_ticks": unforeseen(clock.ticks_after(ground.options.lease_seconds)),
        "heartbeat_ticks": unforeseen(clock.now_ticks()),
    }
    if not picky:
        return values
    known = is_known(ground.job)
    values = {name: case((known, value), else_=columns[name]) for name, value in values.items()}
    return values | {"next_run_ticks": case((known, columns.next_run_ticks), else_=put_off_until(ground))}


def put_off_until(ground: Ground) -> ColumnElement[Any]:
    """When a job that is put off is due again."""
    later = ground.clock.now_ticks() + bindparam(_PUT_OFF, type_=BigInteger())
    return type_coerce(later, InstantTicks())


def insert_attempts(ground: Ground, job: FromClause, begun: Any = None) -> Insert:
    """Adds the attempts of jobs that have started: those of `job`, or of the join `begun` with it."""
    columns = job.c
    attempts: AnySelect = select(
        columns.scope_hash,
        columns.job_id,
        columns.attempt_count,
        columns.attempt_token,
        literal(AttemptState.RUNNING.value, ExactText(16)),
        columns.owner,
        columns.heartbeat_ticks,
    )
    attempts = attempts.select_from(job if begun is None else begun)
    attempts = attempts.where(columns.state == JobState.RUNNING.value)
    names = ["scope_hash", "job_id", "ordinal", "token", "state", "owner", "started_ticks"]
    return insert(ground.attempt).from_select(names, attempts, include_defaults=False)


def report_of(rows: Iterable[Sequence[Any]]) -> StartReport:
    """What was started and put off: rows of `started_columns` and the token, which the latter lack."""
    ordered = sorted(rows, key=claim_order)
    return StartReport(
        started=tuple(StartedJob.of_row(row) for row in ordered if row[-1] is not None),
        put_off=tuple(_put_off(*row[:4]) for row in ordered if row[-1] is None),
    )


def _put_off(scope_hash: bytes, job_id: str, handler: str, handler_version: int) -> PutOff:
    return PutOff(key=JobKey(scope_hash, job_id), handler=handler, handler_version=handler_version)
