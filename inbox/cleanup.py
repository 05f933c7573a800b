"""Deleting processed receipts after their retention."""

from sqlalchemy import Connection, delete, select, tuple_

from inbox.chosen import choose
from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key, key_columns
from inbox.state import ReceiptState
from inbox.table import FINISHED_INDEX
from uow.sql.dialect import database_of
from uow.sql.planner import unforeseen


def cleanup(connection: Connection, ground: Ground, *, limit: int) -> int:
    """Delete the oldest processed receipts past their retention. See InboxStore.cleanup."""
    columns = ground.table.c
    kept_from = ground.clock.after(-ground.options.processed_retention_seconds)
    is_past = (columns.state == ReceiptState.PROCESSED.value) & (columns.completed_at < unforeseen(kept_from))
    past = choose(connection, ground, is_past, index=FINISHED_INDEX, skip_locked=True)
    keys = key_columns(ground.table)
    oldest = past(keys).order_by(columns.completed_at, columns.message_id).limit(limit)
    if database_of(connection).update_returning:
        chosen = oldest.cte("chosen")
        gone = delete(ground.table).where(tuple_(*keys).in_(select(chosen.c.message_id, chosen.c.consumer)))
        return len(connection.execute(gone.returning(keys[0])).all())
    found = [ReceiptKey(*row) for row in connection.execute(oldest)]
    if found:
        # Locked by the choice, and a processed receipt never leaves its state: nothing to check again.
        connection.execute(delete(ground.table).where(has_key(connection, ground.table, found)))
    return len(found)
