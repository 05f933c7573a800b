"""Deleting the rows that parameters name, each found by an index."""

from typing import Any, ClassVar

from sqlalchemy import ColumnElement, Executable, Join, Table, delete, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.visitors import InternalTraversal

from uow.sql.chosen import chosen_by
from uow.sql.given import Given
from uow.sql.row_address import row_address


def delete_given(given: Given, table: Table, named: ColumnElement[bool]) -> Executable:
    """Deletes the rows of `table` for which `named`, a condition on it and a row of `given`, holds."""
    if not given.database.update_returning:
        return _DeleteJoined(table, given.source.outerjoin(table, named))
    addresses = select(row_address(table)).join_from(given.source, table, named)
    return delete(table).where(chosen_by(row_address(table), addresses.correlate(None)))


class _DeleteJoined(Executable, ClauseElement):
    """MySQL's DELETE from a join; an outer one, lest it read, and lock, the whole table first."""

    inherit_cache = True
    _traverse_internals: ClassVar[Any] = [  # type: ignore[misc]
        ("table", InternalTraversal.dp_clauseelement),
        ("joined", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, table: Table, joined: Join) -> None:
        self.table = table
        self.joined = joined


@compiles(_DeleteJoined)
def _delete(element: _DeleteJoined, compiler: Any, **options: Any) -> str:
    table = compiler.process(element.table, asfrom=True, **options)
    return f"DELETE {table} FROM {compiler.process(element.joined, asfrom=True, **options)}"
