"""What people do to jobs of their scope: cancel and retry."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Update, and_, case, literal, null, select, update

from jobs.answer import CancelAnswer, RetryAnswer
from jobs.ground import Ground
from jobs.key import JobKey
from jobs.state import RETRYABLE, JobState
from uow.sql.dialect import database_of
from uow.sql.types import InstantTicks
from uow.ticks import UtcInstant


def cancel(connection: Connection, ground: Ground, key: JobKey) -> CancelAnswer:
    """See JobStore.cancel."""
    columns = ground.job.c
    queued = columns.state == JobState.QUEUED.value
    unfinished = and_(_is(ground, key), columns.state.in_([JobState.QUEUED.value, JobState.RUNNING.value]))
    values = {
        "cancel_requested": literal(1),
        "queued_in": null(),
        "completed_ticks": case((queued, ground.clock.now_ticks()), else_=null()),
        # Last: MySQL assigns from left to right, and the time depends on the state.
        "state": case((queued, _state(JobState.CANCELLED, ground)), else_=columns.state),
    }
    change = update(ground.job).where(unfinished)
    change = change.ordered_values(*((columns[name], value) for name, value in values.items()))
    if database_of(connection).update_returning:
        after = connection.execute(change.returning(columns.state)).scalar_one_or_none()
    else:
        before = select(columns.state).where(unfinished).with_for_update()
        after = _cancelled(connection.execute(before).scalar_one_or_none())
        if after is not None:
            connection.execute(change)
    if after is None:
        return CancelAnswer.FINAL if _exists(connection, ground, key) else CancelAnswer.NOT_FOUND
    return CancelAnswer.REQUESTED if after == JobState.RUNNING else CancelAnswer.CANCELLED


def retry(connection: Connection, ground: Ground, key: JobKey, next_run: UtcInstant | None) -> RetryAnswer:
    """See JobStore.retry."""
    columns = ground.job.c
    ended = columns.state.in_([state.value for state in RETRYABLE])
    attempts_left = columns.attempt_count - columns.forgiven_count < columns.max_attempts
    run = ground.clock.now_ticks() if next_run is None else literal(next_run, InstantTicks())
    change: Update = (
        update(ground.job)
        .where(_is(ground, key), ended, attempts_left)
        .values(
            state=JobState.QUEUED.value,
            queued_in=columns.queue,
            next_run_ticks=run,
            cancel_requested=0,
            **dict.fromkeys(_OF_THE_LAST_ATTEMPT, None),
        )
    )
    if connection.execute(change).rowcount:
        return RetryAnswer.QUEUED
    query = select(case((ended, 1), else_=0)).where(_is(ground, key))
    found = connection.execute(query).scalar_one_or_none()
    if found is None:
        return RetryAnswer.NOT_FOUND
    return RetryAnswer.NO_ATTEMPTS_LEFT if found else RetryAnswer.INVALID_STATE


_OF_THE_LAST_ATTEMPT: tuple[str, ...] = (
    "completed_ticks",
    "progress_percent",
    "progress_message",
    "result_reference",
    "error_code",
    "error_detail",
)


def _is(ground: Ground, key: JobKey) -> ColumnElement[bool]:
    return and_(ground.job.c.scope_hash == key.scope_hash, ground.job.c.job_id == key.job_id)


def _state(state: JobState, ground: Ground) -> ColumnElement[Any]:
    return literal(state.value, ground.job.c.state.type)


def _cancelled(before: str | None) -> str | None:
    return JobState.CANCELLED.value if before == JobState.QUEUED else before


def _exists(connection: Connection, ground: Ground, key: JobKey) -> bool:
    query = select(ground.job.c.state).where(_is(ground, key))
    return connection.execute(query).scalar_one_or_none() is not None
