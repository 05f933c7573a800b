"""The insert that acquires: new receipts stored, due ones taken over, all others left alone."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Integer, and_, case, literal_column

from inbox.ground import Ground
from inbox.portion import portions
from inbox.row import CONTENT_FIELDS, key_columns, values_of
from inbox.state import ReceiptState
from uow.message import Message
from uow.sql.clock import read_clock
from uow.sql.dialect import UpsertStyle, database_of
from uow.sql.upsert import on_conflict_insert, on_duplicate_insert

_ONE: Final = literal_column("1", Integer())
_TAKEN: Final = ("state", "lease_expires_at", "next_attempt_at")


def insert_receipts(
    connection: Connection, ground: Ground, *, consumer: str, messages: Sequence[Message], token: UUID
) -> dict[UUID, int]:
    """Acquire what can be, in one statement; gives the attempt number of each message acquired.

    Where the database does not say which those were, it gives nothing: find them by `token`.
    """
    first = {
        "lease_token": token,
        "state": ReceiptState.PROCESSING.value,
        "attempt_count": 1,
        "claim_count": 1,
    }
    rows = [values_of(message, consumer) | first for message in messages]
    match database_of(connection).upsert:
        case UpsertStyle.ON_CONFLICT:
            return _on_conflict(connection, ground, rows)
        case UpsertStyle.ON_DUPLICATE_KEY:
            _on_duplicate(connection, ground, rows)
            return {}


def _on_conflict(connection: Connection, ground: Ground, rows: list[dict[str, Any]]) -> dict[UUID, int]:
    stored, insert = ground.table.c, on_conflict_insert(database_of(connection), ground.table)
    given, clock, lease_seconds = insert.excluded, ground.clock, ground.options.lease_seconds
    statement = (
        insert.values(
            received_at=clock.now(),
            # Two expressions: joined rows may not share a bound value.
            lease_expires_at=clock.after(lease_seconds),
            next_attempt_at=clock.after(lease_seconds),
        )
        .on_conflict_do_update(
            index_elements=list(key_columns(ground.table)),
            set_={
                **{name: given[name] for name in ("lease_token", *_TAKEN)},
                "attempt_count": stored.attempt_count + _ONE,
                "claim_count": stored.claim_count + _ONE,
            },
            where=_may_take(ground, given),
        )
        .returning(stored.message_id, stored.attempt_count)
    )
    return {
        row.message_id: row.attempt_count
        for portion in portions(rows)
        for row in connection.execute(statement, portion)
    }


def _on_duplicate(connection: Connection, ground: Ground, rows: list[dict[str, Any]]) -> None:
    now = read_clock(connection, ground.clock)
    lease_end = now + timedelta(seconds=ground.options.lease_seconds)
    times = {"received_at": now, "lease_expires_at": lease_end, "next_attempt_at": lease_end}
    stored, insert = ground.table.c, on_duplicate_insert(ground.table)
    given = insert.inserted
    may_take = _may_take(ground, given)
    # Assignments run from left to right and see those before them: the token, first, decides the rest.
    taken = stored.lease_token == given.lease_token
    changes: list[tuple[str, ColumnElement[Any]]] = [
        ("lease_token", case((may_take, given.lease_token), else_=stored.lease_token)),
        *((name, case((taken, given[name]), else_=stored[name])) for name in _TAKEN),
        *(
            (name, case((taken, stored[name] + _ONE), else_=stored[name]))
            for name in ("attempt_count", "claim_count")
        ),
    ]
    statement = insert.on_duplicate_key_update(changes)
    for portion in portions(row | times for row in rows):
        connection.execute(statement, portion)


def _may_take(ground: Ground, given: Any) -> ColumnElement[bool]:
    """Due (so unfinished, and held by nobody), no suspect, and of the same content.

    It binds no value of its own, since rows are joined into one statement only without one here; the
    present is the `received_at` of the row that is offered.
    """
    stored = ground.table.c
    return and_(
        stored.next_attempt_at <= given.received_at,
        stored.claim_count < literal_column(str(int(ground.options.isolate_after)), Integer()),
        *(stored[field] == given[field] for field in CONTENT_FIELDS),
    )
