"""Counting what waits."""

from sqlalchemy import Connection, func, select

from outbox.failure import OutboxCounts
from outbox.ground import Ground
from outbox.state import OutboxState
from outbox.table import DUE_INDEX, FINISHED_INDEX
from uow.sql.index_hint import read_by


def counts(connection: Connection, ground: Ground) -> OutboxCounts:
    """See OutboxStore.counts."""
    table = ground.table
    columns = table.c
    unfinished = connection.execute(
        read_by(
            select(columns.state, func.count().label("rows"), func.min(columns.sequence).label("oldest"))
            .where(columns.next_attempt_at.is_not(None))
            .group_by(columns.state),
            table,
            DUE_INDEX,
        )
    ).all()
    rows = {row.state: row.rows for row in unfinished}
    oldest = min((row.oldest for row in unfinished), default=None)
    dead = (
        select(func.count())
        .select_from(table)
        .where(columns.state == OutboxState.DEAD_LETTERED.value, columns.completed_at.is_not(None))
    )
    created_at = select(columns.created_at).where(columns.sequence == oldest).scalar_subquery()
    rest = connection.execute(
        select(
            read_by(dead, table, FINISHED_INDEX).scalar_subquery().label("dead"),
            created_at.label("created_at"),
            ground.clock.now().label("now"),
        )
    ).one()
    age = None if rest.created_at is None else max(0.0, (rest.now - rest.created_at).total_seconds())
    return OutboxCounts(
        pending=rows.get(OutboxState.PENDING.value, 0),
        publishing=rows.get(OutboxState.PUBLISHING.value, 0),
        dead_lettered=rest.dead,
        oldest_unfinished_age_seconds=age,
    )
