"""Where a row lies, which finds it again within the same statement without any index."""

from typing import Any

from sqlalchemy import ColumnElement, FromClause, FunctionElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import NullType

from uow.sql.dialect import UnsupportedDatabaseError


def row_address(table: FromClause) -> ColumnElement[Any]:
    """The address of a row of `table` (a table or an alias of one); not for MySQL, which has none.

    For `row_address(table) in (SELECT row_address(alias) ...)` in one statement on rows that it has locked,
    or under SQLite's one writer: an address lasts no longer.
    """
    return _RowAddress(next(iter(table.c)))


class _RowAddress(FunctionElement[Any]):
    type = NullType()
    inherit_cache = True
    name = "row_address"


@compiles(_RowAddress)
def _refuse(element: _RowAddress, compiler: Any, **options: Any) -> str:
    raise UnsupportedDatabaseError(f"rows of database {compiler.dialect.name!r} have no address")


@compiles(_RowAddress, "postgresql")
def _tuple_identifier(element: _RowAddress, compiler: Any, **options: Any) -> str:
    return _of_its_table("ctid", element, compiler, options)


@compiles(_RowAddress, "sqlite")
def _row_identifier(element: _RowAddress, compiler: Any, **options: Any) -> str:
    return _of_its_table("rowid", element, compiler, options)


def _of_its_table(name: str, element: _RowAddress, compiler: Any, options: dict[str, Any]) -> str:
    (column,) = element.clauses
    table, dot, _ = compiler.process(column, **options).rpartition(".")
    return f"{table}{dot}{name}"
