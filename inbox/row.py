"""Rows of the inbox table: their keys and contents, out and in."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, RowMapping, Table

from inbox.receipt import ReceiptKey, ReceiptLease
from uow.message import Message
from uow.sql.among_rows import among_rows

_MESSAGE_FIELDS: Final = (
    "contract_name",
    "contract_version",
    "occurred_at",
    "payload",
    "correlation_id",
    "traceparent",
    "tracestate",
)
CONTENT_FIELDS: Final = ("contract_name", "contract_version", "occurred_at", "payload")
"""What must be equal for two messages to be the same, as in `Message.same_content`."""


def key_columns(table: Table) -> tuple[Column[Any], Column[Any]]:
    """The key: message id and consumer."""
    return table.c.message_id, table.c.consumer


def message_columns(table: Table) -> list[Column[Any]]:
    """The key and everything a message is made of."""
    return [*key_columns(table), *(table.c[field] for field in _MESSAGE_FIELDS)]


def values_of(message: Message, consumer: str) -> dict[str, Any]:
    """The columns of a message for an insert."""
    fields = {field: getattr(message, field) for field in _MESSAGE_FIELDS}
    return {"message_id": message.id, "consumer": consumer, **fields}


def message_of(row: RowMapping) -> Message:
    """The message of a row that holds the `message_columns`."""
    return Message(id=row["message_id"], **{field: row[field] for field in _MESSAGE_FIELDS})


def has_key(connection: Connection, table: Table, keys: Collection[ReceiptKey]) -> ColumnElement[bool]:
    """Whether a row is one of these."""
    return among_rows(connection, key_columns(table), [(key.message_id, key.consumer) for key in keys])


def has_lease(connection: Connection, table: Table, leases: Collection[ReceiptLease]) -> ColumnElement[bool]:
    """Whether a row carries the token of one of these."""
    rows = [(lease.key.message_id, lease.key.consumer, lease.token) for lease in leases]
    return among_rows(connection, [*key_columns(table), table.c.lease_token], rows)


def lease_of(row: RowMapping) -> ReceiptLease:
    """The lease of a row that holds the key and the token."""
    return ReceiptLease(ReceiptKey(row["message_id"], row["consumer"]), row["lease_token"])
