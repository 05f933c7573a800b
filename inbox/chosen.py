"""Choosing rows under a lock and changing exactly those: one statement where the database can."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, select, update

from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key, key_columns
from uow.sql.dialect import database_of
from uow.sql.index_hint import PRIMARY, change_by, read_by

Columns: TypeAlias = Sequence[ColumnElement[Any]]
Choice: TypeAlias = Callable[[Columns], Select[*tuple[Any, ...]]]
"""Gives a select of the columns asked for, from rows that it locks."""


def choose(
    connection: Connection, ground: Ground, condition: ColumnElement[bool], *, index: str, skip_locked: bool
) -> Choice:
    """The rows that meet `condition`, found by `index`; those locked by others waited for or left out."""
    skip_locked = skip_locked and database_of(connection).skip_locked

    def chosen(columns: Columns) -> Select[*tuple[Any, ...]]:
        rows = select(*columns).where(condition).with_for_update(skip_locked=skip_locked)
        return read_by(rows, ground.table, index)

    return chosen


def update_chosen(
    connection: Connection,
    table: Table,
    choice: Choice,
    *,
    values: Mapping[str, Any],
    returning: Columns,
    before: Columns | None = None,
) -> Sequence[RowMapping]:
    """Change the chosen rows; gives `returning` of each, in no order.

    returning: the key columns and others, as they are after the change. before: the same in terms of the
    row as it was, where the two differ, for databases whose UPDATE returns nothing: there it takes two
    statements.
    """
    keys = key_columns(table)
    if database_of(connection).update_returning:
        found = choice(keys).cte("chosen")
        change = update(table).where(*(column == found.c[column.name] for column in keys))
        return connection.execute(change.values(values).returning(*returning)).mappings().all()
    rows = connection.execute(choice(before or returning)).mappings().all()
    if rows:
        chosen = has_key(connection, table, [ReceiptKey(row["message_id"], row["consumer"]) for row in rows])
        connection.execute(change_by(update(table).where(chosen), PRIMARY).values(values))
    return rows
