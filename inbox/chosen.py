"""Choosing rows under a lock and changing exactly those: one statement where the database can."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, and_, select, update

from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key, key_columns
from uow.sql.dialect import database_of


def choose(
    connection: Connection, ground: Ground, condition: ColumnElement[bool], *, skip_locked: bool
) -> Select[*tuple[Any, ...]]:
    """The keys of the rows that meet `condition`, locked; those locked by others waited for or left out."""
    keys = select(*key_columns(ground.table)).where(condition)
    return keys.with_for_update(skip_locked=skip_locked and database_of(connection).skip_locked)


def update_chosen(
    connection: Connection,
    table: Table,
    chosen: Select[*tuple[Any, ...]],
    *,
    values: Mapping[str, Any],
    returning: Sequence[ColumnElement[Any]],
    before: Sequence[ColumnElement[Any]] | None = None,
) -> Sequence[RowMapping]:
    """Change the rows whose keys `chosen` selects and locks; gives `returning` of each, in no order.

    returning: the key columns and others, as they are after the change. before: the same in terms of the
    row as it was, where the two differ, for databases whose UPDATE returns nothing: there it takes two
    statements.
    """
    keys = key_columns(table)
    if database_of(connection).update_returning:
        found = chosen.cte("chosen")
        change = update(table).where(*(column == found.c[column.name] for column in keys))
        return connection.execute(change.values(values).returning(*returning)).mappings().all()
    locked = chosen.subquery("chosen")
    same = and_(*(column == locked.c[column.name] for column in keys))
    rows = connection.execute(select(*(before or returning)).join(locked, same)).mappings().all()
    if rows:
        found_keys = [ReceiptKey(row["message_id"], row["consumer"]) for row in rows]
        connection.execute(update(table).where(has_key(table, found_keys)).values(values))
    return rows
