"""One conditional change of many rows that says which rows it changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select, update

from outbox.ground import Ground
from uow.sql.dialect import database_of
from uow.sql.index_hint import PRIMARY, change_by, read_by


def change_rows(
    connection: Connection,
    ground: Ground,
    *,
    where: ColumnElement[bool],
    index: str,
    values: Mapping[str, Any],
    answer: Sequence[ColumnElement[Any]],
    foretold: Sequence[ColumnElement[Any]] | None = None,
) -> Sequence[Row[Any]]:
    """Change the rows for which `where` holds; returns `answer` of exactly those, as it is afterwards.

    One statement where the database has UPDATE ... RETURNING. Elsewhere the rows are first locked by
    `index` and the answer is read before the change: then `foretold` has to say the same from the old
    values, unless `answer` is of columns that do not change. MySQL assigns from left to right, so a value
    that reads a changed column must stand before the one that changes it.
    """
    table = ground.table
    columns = [(table.c[name], value) for name, value in values.items()]
    if database_of(connection).update_returning:
        statement = update(table).where(where).ordered_values(*columns).returning(*answer)
        return connection.execute(statement).all()
    locked = select(table.c.sequence.label("locked"), *(foretold or answer)).where(where).with_for_update()
    rows = connection.execute(read_by(locked, table, index)).all()
    if rows:
        # What was true when the rows were locked stays true until the commit; the time is not asked again.
        change = update(table).where(table.c.sequence.in_([row.locked for row in rows]))
        connection.execute(change_by(change, PRIMARY).ordered_values(*columns))
    return rows
