"""Deleting what was published long ago."""

from sqlalchemy import Connection, delete, select

from outbox.ground import Ground
from outbox.state import OutboxState
from outbox.table import FINISHED_INDEX
from uow.sql.chosen import chosen_by
from uow.sql.dialect import database_of
from uow.sql.index_hint import PRIMARY, change_by, read_by


def cleanup(connection: Connection, ground: Ground, limit: int) -> int:
    """See OutboxStore.cleanup."""
    table = ground.table
    row = table.alias("expired")
    expired = (
        read_by(select(row.c.sequence), row, FINISHED_INDEX)
        .where(
            row.c.state == OutboxState.PUBLISHED.value,
            row.c.completed_at < ground.clock.after(-ground.options.published_retention_seconds),
        )
        .order_by(row.c.completed_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    if database_of(connection).update_returning:
        return connection.execute(delete(table).where(chosen_by(table.c.sequence, expired))).rowcount
    sequences = connection.execute(expired).scalars().all()
    if sequences:
        connection.execute(change_by(delete(table).where(table.c.sequence.in_(sequences)), PRIMARY))
    return len(sequences)
