"""Records of runs: staged with their jobs, told by the executor, ended by what became of the jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    Connection,
    Select,
    Update,
    and_,
    case,
    func,
    null,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.sql.dml import Insert
from sqlalchemy.types import BigInteger, TypeEngine

from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.ground import SCOPE_HASH, ScheduleGround
from jobs.schedule.storing.run_identity import run_id_of
from jobs.schedule.storing.table import NAME_UNITS, RUN_OPEN_INDEX
from jobs.state import JobState
from jobs.submission import JobSubmission
from jobs.table import CODE_UNITS, JOB_ID_UNITS, TEXT_UNITS
from uow.sql.change_given import change_given
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows, insert_given
from uow.sql.index_hint import read_by
from uow.sql.planner import unestimated
from uow.sql.types import ExactText, ExactUuid, InstantTicks
from uow.text import clean_text
from uow.ticks import UtcInstant

UNKNOWN: Final = "unknown"
"""The outcome of a run whose job is gone."""

_STAGED_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "run_id": ExactUuid(),
    "name": ExactText(NAME_UNITS),
    "nominal_ticks": BigInteger(),
    "cause": ExactText(16),
    "job_id": ExactText(JOB_ID_UNITS),
}
_ENDED_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "run_id": ExactUuid(),
    "staged_ticks": BigInteger(),
    "outcome": ExactText(16),
    "ended_ticks": BigInteger(),
    "code": ExactText(CODE_UNITS),
}
_SUCCESS_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "name": ExactText(NAME_UNITS),
    "ended_ticks": BigInteger(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run of a schedule. nominal: its slot, or when it was asked for. staged: when its job was queued.

    attempt, started, ended: of the last attempt. outcome: None while its job has not ended, then the final
    state of the job, or `unknown` when that is gone. code, detail: why it did not succeed, or what the
    executor says of it.
    """

    run_id: UUID
    name: str
    nominal: UtcInstant
    cause: Cause
    job_id: str
    attempt: int | None
    staged: UtcInstant
    started: UtcInstant | None
    ended: UtcInstant | None
    outcome: str | None
    code: str | None
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRun:
    """A run to be: its job, the schedule, its slot and why it runs."""

    name: str
    nominal: UtcInstant
    cause: Cause
    submission: JobSubmission


def stage_runs(connection: Connection, ground: ScheduleGround, runs: Sequence[StagedRun]) -> list[UUID]:
    """Store the jobs of these runs, and their records; the identities of the runs, in their order."""
    if not runs:
        return []
    ground.jobs.submit_many(connection, [run.submission for run in runs])
    given, statement = ground.built(_insert, database_of(connection))
    rows = [
        (run_id_of(job_id), run.name, run.nominal.ticks, run.cause.value, job_id)
        for run in runs
        for job_id in [run.submission.key.job_id]
    ]
    connection.execute(statement, given.parameters(rows))
    return [row[0] for row in rows]


def record_begun(connection: Connection, ground: ScheduleGround, run_id: UUID, attempt: int) -> None:
    """An attempt at the run has begun."""
    begun = {"attempt": attempt, "started_ticks": ground.clock.now_ticks()}
    _record(connection, ground, run_id, attempt, begun | {"ended_ticks": None, "code": None, "detail": None})


def record_ended(
    connection: Connection,
    ground: ScheduleGround,
    run_id: UUID,
    *,
    attempt: int,
    code: str | None,
    detail: str | None,
) -> None:
    """An attempt at the run has ended; what became of the job is told by `settle_runs`."""
    ended = {
        "attempt": attempt,
        "ended_ticks": ground.clock.now_ticks(),
        "code": None if code is None else clean_text(code, units=CODE_UNITS),
        "detail": None if detail is None else clean_text(detail, units=TEXT_UNITS),
    }
    _record(connection, ground, run_id, attempt, ended)


def _record(
    connection: Connection, ground: ScheduleGround, run_id: UUID, attempt: int, values: dict[str, Any]
) -> None:
    """Nothing of an attempt that lost its lease once another has begun, or the run is settled."""
    run = ground.tables.run
    open_and_latest = and_(run.c.open_name.is_not(None), func.coalesce(run.c.attempt, 0) <= attempt)
    connection.execute(update(run).where(run.c.run_id == run_id, unestimated(open_and_latest)).values(values))


def settle_runs(connection: Connection, ground: ScheduleGround, *, limit: int) -> int:
    """End the records of runs whose jobs have ended; how many."""
    database = database_of(connection)
    rows = connection.execute(ground.built(_ended_jobs, database).limit(limit)).all()
    if not rows:
        return 0
    given, change = ground.built(_end, database)
    ended = [
        (run_id, staged.ticks, state or UNKNOWN, None if at is None else at.ticks, code)
        for run_id, _, staged, state, at, code in rows
    ]
    connection.execute(change, given.parameters(ended))
    latest: dict[str, int] = {}
    for _, name, _, state, at, _ in rows:
        if state == JobState.SUCCEEDED.value and at is not None:
            latest[name] = max(latest.get(name, 0), at.ticks)
    if latest:
        successes, tell = ground.built(_tell_success, database)
        connection.execute(tell, successes.parameters(sorted(latest.items())))
    return len(rows)


def find_runs(connection: Connection, ground: ScheduleGround, name: str, *, limit: int) -> list[RunRecord]:
    """The runs of a schedule, the latest first."""
    columns = ground.tables.run.c
    query = (
        select(ground.tables.run)
        .where(columns.name == name)
        .order_by(columns.staged_ticks.desc(), columns.nominal_ticks.desc())
        .limit(limit)
    )
    return [run_of(row) for row in connection.execute(query).mappings()]


def find_run(connection: Connection, ground: ScheduleGround, run_id: UUID) -> RunRecord | None:
    """One run, or None."""
    query = select(ground.tables.run).where(ground.tables.run.c.run_id == run_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else run_of(row)


def run_of(row: Any) -> RunRecord:
    """The run of a row of its table."""
    return RunRecord(
        run_id=row["run_id"],
        name=row["name"],
        nominal=row["nominal_ticks"],
        cause=Cause(row["cause"]),
        job_id=row["job_id"],
        attempt=row["attempt"],
        staged=row["staged_ticks"],
        started=row["started_ticks"],
        ended=row["ended_ticks"],
        outcome=row["outcome"],
        code=row["code"],
        detail=row["detail"],
    )


def _insert(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Insert]:
    given = given_rows(database, _STAGED_COLUMNS)
    values = {**given.c, "open_name": given.c["name"]}
    return given, insert_given(given, ground.tables.run, values, staged_ticks=ground.clock.now_ticks())


def _ended_jobs(ground: ScheduleGround, database: Database, _: None) -> Select[*tuple[Any, ...]]:
    run, job = ground.tables.run, ground.jobs.ground.job
    its_job = and_(job.c.scope_hash == SCOPE_HASH, job.c.job_id == run.c.job_id)
    ended: Select[*tuple[Any, ...]] = select(
        run.c.run_id,
        run.c.name,
        run.c.staged_ticks,
        job.c.state,
        job.c.completed_ticks,
        job.c.error_code,
    ).select_from(run.outerjoin(job, its_job))
    return read_by(ended, run, RUN_OPEN_INDEX).where(
        run.c.open_name.is_not(None), or_(job.c.job_id.is_(None), job.c.completed_ticks.is_not(None))
    )


def _end(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Update]:
    given, run = given_rows(database, _ENDED_COLUMNS), ground.tables.run
    ended = func.coalesce(run.c.ended_ticks, given.c["ended_ticks"], type_=InstantTicks())
    # The job's word goes first: what an attempt takes for a cancellation may be a timeout.
    code = func.coalesce(given.c["code"], run.c.code, type_=ExactText(CODE_UNITS))
    values = {
        "outcome": given.c["outcome"],
        "ended_ticks": ended,
        "code": case((given.c["outcome"] == JobState.SUCCEEDED.value, null()), else_=code),
        "open_name": null(),
    }
    # One that is retried meanwhile has another moment of staging, and stays open.
    as_seen = and_(
        run.c.run_id == given.c["run_id"],
        type_coerce(run.c.staged_ticks, BigInteger()) == given.c["staged_ticks"],
        unestimated(run.c.open_name.is_not(None)),
    )
    return given, change_given(given, run, as_seen, values)


def _tell_success(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Update]:
    given, schedule = given_rows(database, _SUCCESS_COLUMNS), ground.tables.schedule
    known = func.coalesce(schedule.c.last_success_ticks, 0, type_=BigInteger())
    latest = case(
        (known < given.c["ended_ticks"], given.c["ended_ticks"]), else_=schedule.c.last_success_ticks
    )
    named = schedule.c.name == given.c["name"]
    return given, change_given(given, schedule, named, {"last_success_ticks": latest})
