"""Deleting what was published long ago."""

from sqlalchemy import ColumnElement, Connection, FromClause, and_, delete, select

from outbox.ground import Ground
from outbox.state import OutboxState
from outbox.table import FINISHED_INDEX
from uow.sql.chosen import chosen_by
from uow.sql.dialect import database_of
from uow.sql.index_hint import PRIMARY, delete_by, read_by
from uow.sql.planner import at_most, unforeseen


def cleanup(connection: Connection, ground: Ground, limit: int) -> int:
    """See OutboxStore.cleanup."""
    table = ground.table
    row = table.alias("old")
    oldest = (
        read_by(select(row.c.sequence), row, FINISHED_INDEX)
        .where(_expired(ground, row))
        .order_by(row.c.completed_at)
        .limit(at_most(limit))
    )
    if database_of(connection).locks_only_what_it_takes:
        free = oldest.with_for_update(skip_locked=True)
        return connection.execute(delete(table).where(chosen_by(table.c.sequence, free))).rowcount
    sequences = connection.execute(oldest).scalars().all()
    if not sequences:
        return 0
    still = and_(table.c.sequence.in_(sequences), _expired(ground, table))
    return connection.execute(delete_by(table, PRIMARY).where(still)).rowcount


def _expired(ground: Ground, row: FromClause) -> ColumnElement[bool]:
    limit = ground.clock.after(-ground.options.published_retention_seconds)
    return and_(row.c.state == OutboxState.PUBLISHED.value, row.c.completed_at < unforeseen(limit))
