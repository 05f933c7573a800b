"""Deleting what was published long ago."""

from sqlalchemy import Connection, delete, select

from outbox.ground import Ground
from outbox.state import OutboxState
from outbox.table import FINISHED_INDEX
from uow.sql.chosen import chosen_by
from uow.sql.dialect import database_of
from uow.sql.index_hint import read_by
from uow.sql.planner import unforeseen


def cleanup(connection: Connection, ground: Ground, limit: int) -> int:
    """See OutboxStore.cleanup."""
    table = ground.table
    row = table.alias("expired")
    too_old = ground.clock.after(-ground.options.published_retention_seconds)
    expired = (
        read_by(select(row.c.sequence), row, FINISHED_INDEX)
        .where(
            row.c.state == OutboxState.PUBLISHED.value,
            row.c.completed_at < unforeseen(too_old),
        )
        .order_by(row.c.completed_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    if database_of(connection).update_returning:
        return connection.execute(delete(table).where(chosen_by(table.c.sequence, expired))).rowcount
    sequences = connection.execute(expired).scalars().all()
    if sequences:
        connection.execute(delete(table).where(table.c.sequence.in_(sequences)))
    return len(sequences)
