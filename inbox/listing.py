"""Reading receipts for operators; never their payloads."""

from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, RowMapping, Table, func, select, tuple_

from inbox.errors import InboxOptionError
from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key
from inbox.state import ReceiptState
from inbox.view import FailedReceiptCursor, FailedReceiptFilter, ReceiptRecord

LIMIT_MAXIMUM: Final = 1000
_FIELDS: Final = (
    "message_id",
    "consumer",
    "contract_name",
    "contract_version",
    "state",
    "attempt_count",
    "received_at",
    "next_attempt_at",
    "completed_at",
    "error_code",
    "error_detail",
)


def list_failed(
    connection: Connection,
    ground: Ground,
    chosen: FailedReceiptFilter,
    *,
    cursor: FailedReceiptCursor | None,
    limit: int,
) -> list[ReceiptRecord]:
    """Dead-lettered receipts, the latest failure first. See InboxStore.list_failed."""
    if not 1 <= limit <= LIMIT_MAXIMUM:
        raise InboxOptionError(f"limit must be 1 to {LIMIT_MAXIMUM}, not {limit!r}")
    columns = ground.table.c
    order = (columns.completed_at, columns.message_id, columns.consumer)
    query = select(*_columns(ground.table)).where(*_conditions(ground.table, chosen))
    if cursor is not None:
        place = (cursor.failed_at, cursor.message_id, cursor.consumer)
        query = query.where(columns.completed_at <= cursor.failed_at, tuple_(*order) < place)
    query = query.order_by(*(column.desc() for column in order)).limit(limit)
    return [_record(row) for row in connection.execute(query).mappings()]


def count_failed(connection: Connection, ground: Ground, chosen: FailedReceiptFilter) -> int:
    """How many there are. See InboxStore.count_failed."""
    matching = select(func.count()).select_from(ground.table).where(*_conditions(ground.table, chosen))
    return connection.execute(matching).scalar_one()


def find(connection: Connection, ground: Ground, key: ReceiptKey) -> ReceiptRecord | None:
    """One receipt. See InboxStore.find."""
    query = select(*_columns(ground.table)).where(has_key(connection, ground.table, [key]))
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _record(row)


def _conditions(table: Table, chosen: FailedReceiptFilter) -> list[ColumnElement[bool]]:
    columns = table.c
    equal = {
        name: getattr(chosen, name)
        for name in ("consumer", "contract_name", "contract_version", "error_code")
    }
    conditions = [columns.state == ReceiptState.DEAD_LETTERED.value, columns.completed_at.is_not(None)]
    conditions += [columns[name] == value for name, value in equal.items() if value is not None]
    if chosen.failed_from is not None:
        conditions.append(columns.completed_at >= chosen.failed_from)
    if chosen.failed_before is not None:
        conditions.append(columns.completed_at < chosen.failed_before)
    return conditions


def _columns(table: Table) -> list[Column[Any]]:
    return [table.c[field] for field in _FIELDS]


def _record(row: RowMapping) -> ReceiptRecord:
    values: dict[str, Any] = {field: row[field] for field in _FIELDS}
    values["state"] = ReceiptState(row["state"])
    return ReceiptRecord(**values)
