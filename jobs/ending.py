"""What a job and its attempt become when the attempt ends: decided by the row as it is when it is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, assert_never

from sqlalchemy import BigInteger, ColumnElement, FromClause, Integer, and_, case, literal, null, type_coerce
from sqlalchemy.types import TypeEngine

from jobs.ground import REFERENCE_COLUMNS, Ground
from jobs.settlement import Settlement, SettlementKind
from jobs.state import AttemptState, JobState
from jobs.table import CODE_UNITS, TEXT_UNITS
from uow.sql.clock import ticks_of
from uow.sql.given import Given
from uow.sql.planner import unforeseen
from uow.sql.types import ExactText, InstantTicks

ENDING_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    **REFERENCE_COLUMNS,
    "ends_as": ExactText(16),
    "requeue": Integer(),
    "forgiven": Integer(),
    "delay_ticks": BigInteger(),
    "result_reference": ExactText(TEXT_UNITS),
    "error_code": ExactText(CODE_UNITS),
    "error_detail": ExactText(TEXT_UNITS),
}
DECIDED_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    **ENDING_COLUMNS,
    "cancelled": Integer(),
    "queued": Integer(),
}


def ending_row(settlement: Settlement) -> tuple[Any, ...]:
    """The values of ENDING_COLUMNS."""
    reference = settlement.reference
    return (
        reference.scope_hash,
        reference.job_id,
        reference.ordinal,
        reference.token,
        _ends_as(settlement.kind).value,
        int(settlement.requeue),
        int(not settlement.counts),
        ticks_of(settlement.delay_seconds),
        settlement.result_reference,
        settlement.error_code,
        settlement.error_detail,
    )


class Ending(Protocol):
    """The decision about one attempt, in SQL: what was asked for comes after a cancellation."""

    @property
    def cancelled(self) -> ColumnElement[bool]:
        """Whether someone asked for the end of the job before."""
        ...

    @property
    def queued(self) -> ColumnElement[bool]:
        """Whether another attempt follows."""
        ...


@dataclass(frozen=True, slots=True)
class Deciding:
    """Decided by the row of `job` as it is when it is written."""

    job: FromClause
    given: Given

    @property
    def cancelled(self) -> ColumnElement[bool]:
        """Whether the job carries the mark."""
        return self.job.c.cancel_requested == 1

    @property
    def queued(self) -> ColumnElement[bool]:
        """Whether it is wished for, not cancelled, and an attempt is left."""
        columns = self.job.c
        used = columns.attempt_count - columns.forgiven_count - self.given.c["forgiven"]
        return and_(self.given.c["requeue"] == 1, columns.cancel_requested == 0, used < columns.max_attempts)


@dataclass(frozen=True, slots=True)
class Decided:
    """Decided when the row was locked; `given` has the DECIDED_COLUMNS."""

    given: Given

    @property
    def cancelled(self) -> ColumnElement[bool]:
        """Whether the job carried the mark."""
        return self.given.c["cancelled"] == 1

    @property
    def queued(self) -> ColumnElement[bool]:
        """Whether another attempt was decided on."""
        return self.given.c["queued"] == 1


def job_state(given: Given, ending: Ending) -> ColumnElement[str]:
    """The state of the job afterwards."""
    return case(
        (ending.cancelled, _state(JobState.CANCELLED)),
        (ending.queued, _state(JobState.QUEUED)),
        else_=given.c["ends_as"],
    )


def attempt_state(given: Given, ending: Ending) -> ColumnElement[str]:
    """The state of the attempt afterwards."""
    return case((ending.cancelled, _state(AttemptState.CANCELLED)), else_=given.c["ends_as"])


def kept_result(given: Given, ending: Ending) -> ColumnElement[str]:
    """The result afterwards; what was cancelled has none."""
    return case((ending.cancelled, null()), else_=given.c["result_reference"])


def job_values(ground: Ground, given: Given, ending: Ending) -> dict[str, Any]:
    """The changes of a job whose attempt ends."""
    columns, queued = ground.job.c, ending.queued
    now = unforeseen(ground.clock.now_ticks())
    later = now + given.c["delay_ticks"]
    return {
        "state": job_state(given, ending),
        "queued_in": case((queued, columns.queue), else_=null()),
        "next_run_ticks": case((queued, type_coerce(later, InstantTicks())), else_=columns.next_run_ticks),
        "completed_ticks": case((queued, null()), else_=now),
        "progress_percent": case((queued, null()), else_=columns.progress_percent),
        "progress_message": case((queued, null()), else_=columns.progress_message),
        "result_reference": kept_result(given, ending),
        "error_code": given.c["error_code"],
        "error_detail": given.c["error_detail"],
        "forgiven_count": columns.forgiven_count + given.c["forgiven"],
        **dict.fromkeys(("owner", "lease_expires_ticks", "heartbeat_ticks"), null()),
    }


def attempt_values(ground: Ground, ended: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of an attempt that ends; `ended` has the columns of `ended_columns`."""
    return {
        "state": ended["attempt_state"],
        "ended_ticks": unforeseen(ground.clock.now_ticks()),
        "result_reference": ended["kept_result"],
        "error_code": ended["error_code"],
        "error_detail": ended["error_detail"],
    }


def ended_columns(given: Given, ending: Ending) -> dict[str, ColumnElement[Any]]:
    """What an attempt becomes."""
    return {
        "attempt_state": attempt_state(given, ending),
        "kept_result": kept_result(given, ending),
        "error_code": given.c["error_code"],
        "error_detail": given.c["error_detail"],
    }


def _state(state: JobState | AttemptState) -> ColumnElement[str]:
    return literal(state.value, ExactText(16))


def _ends_as(kind: SettlementKind) -> AttemptState:
    match kind:
        case SettlementKind.SUCCEED:
            return AttemptState.SUCCEEDED
        case SettlementKind.FAIL:
            return AttemptState.FAILED
        case SettlementKind.INTERRUPT:
            return AttemptState.INTERRUPTED
        case _:
            assert_never(kind)
