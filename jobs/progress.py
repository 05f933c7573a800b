"""Progress of a running attempt, in the job and in the attempt together."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, select, update

from jobs.answer import ProgressAnswer
from jobs.errors import AttemptMissingError
from jobs.ground import REFERENCE_COLUMNS, Ground
from jobs.key import AttemptReference
from jobs.state import AttemptState, JobState
from jobs.table import TEXT_UNITS
from uow.sql.dialect import Database, database_of
from uow.sql.planner import unestimated
from uow.text import clean_text


def check_percent(percent: object) -> None:
    """Raises ValueError unless it is a whole number, 0 to 100."""
    if type(percent) is not int or not 0 <= percent <= 100:
        raise ValueError(f"percent must be a whole number, 0 to 100, not {percent!r}")


def progress(
    connection: Connection, ground: Ground, reference: AttemptReference, percent: int, message: str | None
) -> ProgressAnswer:
    """See JobStore.progress."""
    check_percent(percent)
    database = database_of(connection)
    parameters = {
        "of_scope_hash": reference.scope_hash,
        "of_job_id": reference.job_id,
        "of_ordinal": reference.ordinal,
        "of_token": reference.token,
        "new_percent": percent,
        "new_message": None if message is None else clean_text(message, units=TEXT_UNITS),
    }
    if database.changing_ctes:
        row = connection.execute(ground.built(_both_at_once, database), parameters).one()
        changed, told = row[0], row[1]
    else:
        job, attempt = ground.built(_job_then_attempt, database)
        changed = connection.execute(job, parameters).rowcount
        told = connection.execute(attempt, parameters).rowcount if changed else 0
    if changed != told:
        raise AttemptMissingError(reference)
    if changed:
        return ProgressAnswer.RECORDED
    cancelled = connection.execute(ground.built(_mark, database), parameters).scalar_one_or_none()
    if cancelled is None:
        return ProgressAnswer.FENCED
    return ProgressAnswer.CANCEL_REQUESTED if cancelled else ProgressAnswer.LOWER


def _both_at_once(ground: Ground, database: Database, _: None) -> Select[int, int]:
    job, attempt = _job_then_attempt(ground, database, None)
    changed = job.returning(ground.job.c.attempt_count).cte("changed")
    told = (
        attempt.where(ground.attempt.c.ordinal == select(changed.c.attempt_count).scalar_subquery())
        .returning(ground.attempt.c.ordinal)
        .cte("told")
    )
    return select(
        select(func.count()).select_from(changed).scalar_subquery(),
        select(func.count()).select_from(told).scalar_subquery(),
    )


def _job_then_attempt(ground: Ground, database: Database, _: None) -> tuple[Any, Any]:
    job, attempt = ground.job, ground.attempt
    values = {
        "progress_percent": _parameter("new_percent", job.c.progress_percent),
        "progress_message": _parameter("new_message", job.c.progress_message),
    }
    not_lower = func.coalesce(job.c.progress_percent, 0) <= values["progress_percent"]
    return (
        update(job).where(_held(ground), job.c.cancel_requested == 0, not_lower).values(values),
        update(attempt).where(_running(ground)).values(values),
    )


def _mark(ground: Ground, database: Database, _: None) -> Select[int]:
    return select(ground.job.c.cancel_requested).where(_held(ground))


def _held(ground: Ground) -> ColumnElement[bool]:
    columns = ground.job.c
    running = (
        columns.attempt_count == _of("ordinal"),
        columns.attempt_token == _of("token"),
        columns.state == JobState.RUNNING.value,
        columns.lease_expires_ticks > ground.clock.now_ticks(),
    )
    return and_(
        columns.scope_hash == _of("scope_hash"),
        columns.job_id == _of("job_id"),
        unestimated(and_(*running)),
    )


def _running(ground: Ground) -> ColumnElement[bool]:
    columns = ground.attempt.c
    return and_(
        columns.scope_hash == _of("scope_hash"),
        columns.job_id == _of("job_id"),
        columns.ordinal == _of("ordinal"),
        columns.token == _of("token"),
        columns.state == AttemptState.RUNNING.value,
    )


def _of(name: str) -> ColumnElement[Any]:
    return bindparam(f"of_{name}", type_=REFERENCE_COLUMNS[name])


def _parameter(name: str, column: Any) -> ColumnElement[Any]:
    return bindparam(name, type_=column.type)
