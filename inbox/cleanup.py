"""Deleting processed receipts after their retention."""

from typing import Any

from sqlalchemy import Connection, Select, delete

from inbox.chosen import Columns, choose
from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key, key_columns
from inbox.state import ReceiptState
from inbox.table import FINISHED_INDEX
from uow.sql.chosen import chosen_by
from uow.sql.dialect import database_of
from uow.sql.planner import at_most, unforeseen
from uow.sql.row_address import row_address


def cleanup(connection: Connection, ground: Ground, *, limit: int) -> int:
    """Delete the oldest processed receipts past their retention. See InboxStore.cleanup."""
    columns = ground.table.c
    kept_from = ground.clock.after(-ground.options.processed_retention_seconds)
    is_past = (columns.state == ReceiptState.PROCESSED.value) & (columns.completed_at < unforeseen(kept_from))
    past = choose(connection, ground, is_past, index=FINISHED_INDEX, skip_locked=True)

    def oldest(these: Columns) -> Select[*tuple[Any, ...]]:
        return past(these).order_by(columns.completed_at, columns.message_id).limit(at_most(limit))

    if database_of(connection).update_returning:
        address = row_address(ground.table)
        gone = delete(ground.table).where(chosen_by(address, oldest([address]).correlate(None)))
        return connection.execute(gone).rowcount
    found = [ReceiptKey(*row) for row in connection.execute(oldest(key_columns(ground.table)))]
    if found:
        # Locked by the choice, and a processed receipt never leaves its state: nothing to check again.
        connection.execute(delete(ground.table).where(has_key(connection, ground.table, found)))
    return len(found)
