"""The record of what operators did to failed messages: who, when, what and with what result."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from sqlalchemy import Column, Connection, Index, Integer, MetaData, Table, insert, select

from uow.errors import FixTheCodeError
from uow.sql.clock import DatabaseClock, OperationalClock
from uow.sql.types import ExactText, ExactUuid, UtcDateTime, sequence_type

_INFO_KEY: Final = "selfmanaged.operation"


class OperationNotMappedError(FixTheCodeError):
    """The MetaData does not hold the operation table; call `relay.add_messaging_tables(metadata)` first."""


class OperationKind(StrEnum):
    """What an operator did."""

    REPLAY = "replay"
    DISCARD = "discard"
    REQUEUE_DEAD = "requeue_dead"
    DROP_DEAD = "drop_dead"


class OperationResult(StrEnum):
    """How it ended."""

    ACCEPTED = "accepted"
    """Done, and it will take effect."""
    NOT_FOUND = "not_found"
    """There is no such failed message."""
    INVALID_STATE = "invalid_state"
    """The message is there but is not dead-lettered: someone replayed or discarded it, or it succeeded."""
    UNREADABLE = "unreadable"
    """The stored payload cannot be read by the registered contracts; repair comes before replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that an operator asked for. `queue` is outbox, inbox or broker."""

    kind: OperationKind
    result: OperationResult
    operator: str
    queue: str
    message_id: UUID | None = None
    consumer: str | None = None
    message_count: int = 1
    reason: str | None = None
    detail: str | None = None
    occurred_at: datetime | None = None
    """Set by the database when the operation is recorded."""


def add_operation_table(metadata: MetaData, *, schema: str | None = None) -> Table:
    """Add `messaging_operation` to the application's MetaData; a second call returns the same table.

    `schema` is the database schema, when it is not the MetaData's own.
    """
    if _INFO_KEY in metadata.info:
        return operation_table(metadata)
    table = Table(
        "messaging_operation",
        metadata,
        Column("sequence", sequence_type(), primary_key=True, autoincrement=True),
        Column("kind", ExactText(16), nullable=False),
        Column("result", ExactText(16), nullable=False),
        Column("operator", ExactText(200), nullable=False),
        Column("queue", ExactText(16), nullable=False),
        Column("message_id", ExactUuid()),
        Column("consumer", ExactText(200)),
        Column("message_count", Integer(), nullable=False),
        Column("reason", ExactText(1000)),
        Column("detail", ExactText(1000)),
        Column("occurred_at", UtcDateTime(), nullable=False),
        schema=schema,
        sqlite_autoincrement=True,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )
    Index("ix_messaging_operation_message", table.c.message_id, table.c.sequence)
    metadata.info[_INFO_KEY] = table.key
    return table


def operation_table(metadata: MetaData) -> Table:
    """The operation table of this MetaData. Raises OperationNotMappedError when it was not added."""
    key = metadata.info.get(_INFO_KEY)
    if key is None or key not in metadata.tables:
        raise OperationNotMappedError(
            "this MetaData has no operation table; call relay.add_messaging_tables(metadata) "
            "where the application's tables are declared"
        )
    return metadata.tables[key]


class OperationLog:
    """Writes and reads the record; rows are never changed and never cleaned up."""

    def __init__(self, table: Table, *, clock: OperationalClock | None = None) -> None:
        self._table = table
        self._clock = clock or DatabaseClock()

    def record(self, connection: Connection, operations: Sequence[Operation]) -> None:
        """Store all in one statement, in the transaction of what they did."""
        if not operations:
            return
        rows = [
            {
                "kind": operation.kind.value,
                "result": operation.result.value,
                "operator": operation.operator,
                "queue": operation.queue,
                "message_id": operation.message_id,
                "consumer": operation.consumer,
                "message_count": operation.message_count,
                "reason": operation.reason,
                "detail": operation.detail,
                "occurred_at": self._clock.now(),
            }
            for operation in operations
        ]
        connection.execute(insert(self._table).values(rows))

    def recent(
        self, connection: Connection, *, message_id: UUID | None = None, limit: int = 100
    ) -> list[Operation]:
        """The newest first; those of one message when `message_id` is given."""
        table = self._table
        statement = select(table).order_by(table.c.sequence.desc()).limit(limit)
        if message_id is not None:
            statement = statement.where(table.c.message_id == message_id)
        return [
            Operation(
                kind=OperationKind(row["kind"]),
                result=OperationResult(row["result"]),
                operator=row["operator"],
                queue=row["queue"],
                message_id=row["message_id"],
                consumer=row["consumer"],
                message_count=row["message_count"],
                reason=row["reason"],
                detail=row["detail"],
                occurred_at=row["occurred_at"],
            )
            for row in connection.execute(statement).mappings()
        ]
