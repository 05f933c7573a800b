"""Appending events: one multi-row insert that absorbs what is there already."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, String, cast, func, insert, select
from sqlalchemy.exc import IntegrityError

from outbox.errors import EventConflictError, EventVanishedError
from outbox.ground import Ground
from outbox.row import message_columns, message_of, values_of
from outbox.state import OutboxState
from uow.message import Message
from uow.sql.dialect import Database, UpsertStyle, database_of
from uow.sql.fault import Fault, fault_of
from uow.sql.upsert import inserts_many_at_once, on_conflict_insert
from uow.text import utf8_bytes_of

_ROUNDS: Final = 5
_VALUES_PER_ROW: Final = 16
_PAYLOAD_BYTES: Final = 4 * 1_048_576
"""MariaDB refuses a statement longer than its `max_allowed_packet`, 16 MiB by default, and escaping can
double the length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport:
    """How many events are new, and the transaction's id where inserting tells it (PostgreSQL)."""

    added: int
    transaction_id: str | None


def append(connection: Connection, ground: Ground, messages: Sequence[Message]) -> AppendReport:
    """See OutboxStore.append."""
    database = database_of(connection)
    waiting = _by_id(messages)
    added, transaction_id = 0, None
    for _ in range(_ROUNDS):
        for some in _portions(list(waiting.values()), database.parameters_limit // _VALUES_PER_ROW):
            new, told = _insert(connection, ground, database, some)
            added += len(new)
            transaction_id = told or transaction_id
            for event_id in new:
                del waiting[event_id]
        if waiting:
            for earlier in _stored(connection, ground, database, waiting):
                _check_same(waiting.pop(earlier.id), earlier)
        if not waiting:
            return AppendReport(added=added, transaction_id=transaction_id)
    raise EventVanishedError(
        f"{len(waiting)} events could neither be added nor found, {_ROUNDS} times in a row; "
        "something deletes rows of the outbox at this moment"
    )


def _by_id(messages: Sequence[Message]) -> dict[UUID, Message]:
    unique: dict[UUID, Message] = {}
    for message in messages:
        _check_same(message, unique.setdefault(message.id, message))
    return unique


def _check_same(message: Message, earlier: Message) -> None:
    if not message.same_content(earlier):
        raise EventConflictError.between(message, earlier)


def _portions(messages: Sequence[Message], rows: int) -> Iterator[list[Message]]:
    portion: list[Message] = []
    total = 0
    for message in messages:
        payload_bytes = utf8_bytes_of(message.payload)
        if portion and (len(portion) == rows or total + payload_bytes > _PAYLOAD_BYTES):
            yield portion
            portion, total = [], 0
        portion.append(message)
        total += payload_bytes
    if portion:
        yield portion


def _insert(
    connection: Connection, ground: Ground, database: Database, messages: list[Message]
) -> tuple[Collection[UUID], str | None]:
    """The ids that are new, and the transaction's id; nothing at all when MySQL met one that is not."""
    match database.upsert:
        case UpsertStyle.ON_CONFLICT:
            return _insert_skipping_existing(connection, ground, database, messages)
        case UpsertStyle.ON_DUPLICATE_KEY:
            return _insert_all_or_nothing(connection, ground, messages), None


def _insert_skipping_existing(
    connection: Connection, ground: Ground, database: Database, messages: list[Message]
) -> tuple[list[UUID], str | None]:
    event_id = ground.table.c.event_id
    told: list[ColumnElement[Any]] = [event_id]
    if database.transaction_status:
        told.append(cast(func.pg_current_xact_id(), String).label("transaction_id"))
    # It waits for another transaction that is inserting the same event.
    insertion = on_conflict_insert(database, ground.table).on_conflict_do_nothing(index_elements=[event_id])
    statement = insertion.returning(*told)
    rows = connection.execute(
        statement.values(_times(ground)),
        [_row(message) for message in messages],
        execution_options={"insertmanyvalues_page_size": len(messages)},
    ).all()
    transaction_id = rows[0].transaction_id if rows and database.transaction_status else None
    return [row.event_id for row in rows], transaction_id


def _insert_all_or_nothing(connection: Connection, ground: Ground, messages: list[Message]) -> list[UUID]:
    """A duplicate ends this statement alone, not the transaction; it costs nothing when there is none.

    MySQL cannot tell added rows from duplicates: INSERT IGNORE also swallows other faults, and with
    ON DUPLICATE KEY UPDATE the drivers' FOUND_ROWS flag makes both count as one.
    """
    table = ground.table
    rows = [_row(message) for message in messages]
    try:
        if inserts_many_at_once(connection):
            connection.execute(
                insert(table).values(_times(ground)).returning(table.c.sequence),
                rows,
                execution_options={"insertmanyvalues_page_size": len(messages)},
            )
        else:
            connection.execute(insert(table).values([row | _times(ground) for row in rows]))
    except IntegrityError as error:
        if fault_of(error) is Fault.UNIQUE_VIOLATION:
            return []
        raise
    return [message.id for message in messages]


def _stored(
    connection: Connection, ground: Ground, database: Database, event_ids: Collection[UUID]
) -> list[Message]:
    """The stored events among these. Where a duplicate did not wait for it, read what is committed now."""
    table = ground.table
    stored = select(*message_columns(table)).where(table.c.event_id.in_(list(event_ids)))
    if database.upsert is UpsertStyle.ON_DUPLICATE_KEY:
        # A plain read of InnoDB sees the beginning of the transaction, perhaps before the other commit.
        stored = stored.with_for_update(read=True)
    return [message_of(row) for row in connection.execute(stored)]


def _times(ground: Ground) -> dict[str, Any]:
    return {"created_at": ground.clock.now(), "next_attempt_at": ground.clock.now()}


def _row(message: Message) -> dict[str, Any]:
    return {
        **values_of(message),
        "holding_key": message.ordering_key,
        "state": OutboxState.PENDING.value,
        "failure_count": 0,
        "claim_count": 0,
    }
