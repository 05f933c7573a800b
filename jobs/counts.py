"""Counting what waits and runs, without reading what has succeeded."""

from typing import Final

from sqlalchemy import Connection, func, select

from jobs.answer import JobCounts, QueueCounts
from jobs.ground import Ground
from jobs.state import RETRYABLE, JobState
from jobs.table import DUE_INDEX, FINAL_INDEX, LEASED_INDEX
from uow.sql.clock import read_ticks
from uow.sql.index_hint import read_by
from uow.ticks import TICKS_PER_SECOND, UtcInstant

_WITHOUT_SUCCESS: Final = [state.value for state in RETRYABLE]


def counts(connection: Connection, ground: Ground) -> JobCounts:
    """See JobStore.counts."""
    columns = ground.job.c
    now = read_ticks(connection, ground.clock)
    queued = connection.execute(
        read_by(
            select(columns.queued_in, func.count(), func.min(columns.next_run_ticks))
            .where(columns.queued_in.is_not(None))
            .group_by(columns.queued_in),
            ground.job,
            DUE_INDEX,
        )
    ).all()
    running = running_counts(connection, ground)
    ended = connection.execute(
        read_by(
            select(columns.state, func.count())
            .where(
                columns.state.in_([state.value for state in RETRYABLE]), columns.completed_ticks.is_not(None)
            )
            .group_by(columns.state),
            ground.job,
            FINAL_INDEX,
        )
    )
    totals = {row[0]: row[1] for row in ended}
    waiting = {row[0]: (row[1], row[2]) for row in queued}
    return JobCounts(
        queues=tuple(
            QueueCounts(
                queue=queue,
                queued=waiting[queue][0] if queue in waiting else 0,
                running=running.get(queue, 0),
                oldest_due_age_seconds=_age(waiting[queue][1], now) if queue in waiting else None,
            )
            for queue in sorted({*waiting, *running})
        ),
        failed=totals.get(JobState.FAILED.value, 0),
        cancelled=totals.get(JobState.CANCELLED.value, 0),
        interrupted=totals.get(JobState.INTERRUPTED.value, 0),
    )


def running_counts(connection: Connection, ground: Ground) -> dict[str, int]:
    """See JobStore.running."""
    columns = ground.job.c
    rows = connection.execute(
        read_by(
            select(columns.queue, func.count())
            .where(columns.lease_expires_ticks.is_not(None))
            .group_by(columns.queue),
            ground.job,
            LEASED_INDEX,
        )
    )
    return {row[0]: row[1] for row in rows}


def _age(first: UtcInstant, now: UtcInstant) -> float | None:
    return None if first > now else (now.ticks - first.ticks) / TICKS_PER_SECOND
