"""Storing receipts without acquiring them, for the hand-over of `local:`."""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from sqlalchemy import Connection, select

from inbox.acquisition import RecordReport
from inbox.ground import Ground
from inbox.portion import portions
from inbox.receipt import ReceiptKey
from inbox.row import CONTENT_FIELDS, has_key, key_columns, values_of
from inbox.state import ReceiptState
from uow.message import Message
from uow.sql.clock import read_clock
from uow.sql.dialect import UpsertStyle, database_of
from uow.sql.upsert import insert_unless_there


def record(connection: Connection, ground: Ground, deliveries: Sequence[tuple[str, Message]]) -> RecordReport:
    """Store what is new and report what differs. See InboxStore.record."""
    given: dict[ReceiptKey, Message] = {}
    conflicts: list[ReceiptKey] = []
    for consumer, message in deliveries:
        key = ReceiptKey(message.id, consumer)
        if not given.setdefault(key, message).same_content(message):
            conflicts.append(key)
    if not given:
        return RecordReport(recorded=0, conflicts=())
    # Sorted, so that two who record the same receipts lock them in one order.
    added = _insert(connection, ground, {key: given[key] for key in sorted(given)})
    there = {key: message for key, message in given.items() if key not in added}
    if there:
        conflicts += _differing(connection, ground, there)
    return RecordReport(
        recorded=len(added),
        known=tuple(key for key in there if key not in conflicts),
        conflicts=tuple(dict.fromkeys(conflicts)),
    )


def _insert(connection: Connection, ground: Ground, given: Mapping[ReceiptKey, Message]) -> set[ReceiptKey]:
    database, keys, clock = database_of(connection), key_columns(ground.table), ground.clock
    insert = insert_unless_there(database, ground.table, key=keys)
    received = {"state": ReceiptState.RECEIVED.value}
    rows = [values_of(message, key.consumer) | received for key, message in given.items()]
    match database.upsert:
        case UpsertStyle.ON_CONFLICT:
            statement = insert.values(received_at=clock.now(), next_attempt_at=clock.now()).returning(*keys)
            added = [row for portion in portions(rows) for row in connection.execute(statement, portion)]
        case UpsertStyle.ON_DUPLICATE_KEY:
            moment, mark = read_clock(connection, clock), uuid4()
            same = {"received_at": moment, "next_attempt_at": moment, "lease_token": mark}
            for portion in portions(row | same for row in rows):
                connection.execute(insert, portion)
            # The insert does not say what it added; the token that came along does, and fences nothing.
            mine = select(*keys).where(
                has_key(connection, ground.table, list(given)), ground.table.c.lease_token == mark
            )
            added = list(connection.execute(mine))
    return {ReceiptKey(message_id, consumer) for message_id, consumer in added}


def _differing(
    connection: Connection, ground: Ground, given: Mapping[ReceiptKey, Message]
) -> list[ReceiptKey]:
    columns = ground.table.c
    query = select(*key_columns(ground.table), *(columns[field] for field in CONTENT_FIELDS))
    differing = []
    for row in connection.execute(query.where(has_key(connection, ground.table, list(given)))).mappings():
        key = ReceiptKey(row["message_id"], row["consumer"])
        if any(row[field] != getattr(given[key], field) for field in CONTENT_FIELDS):
            differing.append(key)
    return differing
