"""Deleting processed receipts after their retention."""

from sqlalchemy import Connection, delete

from inbox.chosen import choose
from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key
from inbox.state import ReceiptState


def cleanup(connection: Connection, ground: Ground, *, limit: int) -> int:
    """Delete the oldest processed receipts past their retention. See InboxStore.cleanup."""
    columns = ground.table.c
    kept_from = ground.clock.after(-ground.options.processed_retention_seconds)
    is_past = (columns.state == ReceiptState.PROCESSED.value) & (columns.completed_at < kept_from)
    past = choose(connection, ground, is_past, skip_locked=True)
    past = past.order_by(columns.completed_at, columns.message_id).limit(limit)
    keys = [ReceiptKey(*row) for row in connection.execute(past)]
    if keys:
        # Locked by the choice, and a processed receipt never leaves its state: nothing to check again.
        connection.execute(delete(ground.table).where(has_key(ground.table, keys)))
    return len(keys)
