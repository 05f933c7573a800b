"""Between the columns of the outbox table and the envelope."""

from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, Row, case, null

from uow.message import Message

_FIELDS: Final = {
    "id": "event_id",
    "contract_name": "contract_name",
    "contract_version": "contract_version",
    "occurred_at": "occurred_at",
    "payload": "payload",
    "correlation_id": "correlation_id",
    "traceparent": "traceparent",
    "tracestate": "tracestate",
    "ordering_key": "ordering_key",
}


def message_columns(
    table: FromClause, *, without_payload: ColumnElement[bool] | None = None
) -> list[ColumnElement[Any]]:
    """The columns that `message_of` reads; rows for which `without_payload` holds come without it."""
    columns: dict[str, ColumnElement[Any]] = {name: table.c[name] for name in _FIELDS.values()}
    if without_payload is not None:
        columns["payload"] = case((without_payload, null()), else_=table.c.payload).label("payload")
    return list(columns.values())


def message_of(row: Row[Any]) -> Message:
    """The envelope in a row that holds `message_columns`."""
    values = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for a row as a mapping
    return Message(**{name: values[column] for name, column in _FIELDS.items()})


def values_of(message: Message) -> dict[str, Any]:
    """The envelope as column values."""
    return {column: getattr(message, name) for name, column in _FIELDS.items()}
