"""Choosing rows under a lock and changing exactly those: one statement where the database can."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, and_, select, update

from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key, key_columns
from uow.sql.chosen import chosen_by
from uow.sql.dialect import database_of
from uow.sql.index_hint import PRIMARY, change_by, read_by
from uow.sql.row_address import row_address

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
    waits: bool = False,
) -> Sequence[RowMapping]:
    """Change the chosen rows; gives `returning` of each, in no order.

    returning: the key columns and others, as they are after the change. before: the same in terms of the
    row as it was, where the two differ, for databases whose UPDATE returns nothing: there it takes two
    statements. waits: the choice waits for rows that others have locked.
    """
    if database_of(connection).update_returning:
        change = update(table).where(_is_among(table, choice, waits=waits)).values(values)
        return connection.execute(change.returning(*returning)).mappings().all()
    rows = connection.execute(choice(before or returning)).mappings().all()
    if rows:
        chosen = has_key(connection, table, [ReceiptKey(row["message_id"], row["consumer"]) for row in rows])
        connection.execute(change_by(update(table).where(chosen), PRIMARY).values(values))
    return rows


def _is_among(table: Table, choice: Choice, *, waits: bool) -> ColumnElement[bool]:
    """Whether a row is chosen: by its address, which needs no plan, or by its key if it may have moved."""
    if not waits:
        address = row_address(table)
        return chosen_by(address, choice([address.label("address")]).correlate(None))
    keys = key_columns(table)
    found = choice(keys).cte("chosen")
    return and_(*(column == found.c[column.name] for column in keys))
