"""Telling MySQL and MariaDB which index to use, where another plan would lock rows it only reads."""

from typing import Any, Final, TypeVarTuple

from sqlalchemy import ColumnElement, Delete, FromClause, Select, Table, Update, delete
from sqlalchemy.ext.compiler import compiles

PRIMARY: Final = "PRIMARY"

Columns = TypeVarTuple("Columns")

_NAMES: Final = ("mysql", "mariadb")


def read_by(statement: Select[*Columns], table: FromClause, index: str) -> Select[*Columns]:
    """`statement` reading `table` by `index`; other databases decide for themselves.

    InnoDB locks each row that a locking read scans, so a plan that scans or sorts more than it takes
    blocks or deadlocks others.
    """
    for name in _NAMES:
        statement = statement.with_hint(table, f"FORCE INDEX ({index})", name)
    return statement


def change_by(statement: Update, index: str) -> Update:
    """`statement` finding its rows by `index`; other databases decide for themselves."""
    for name in _NAMES:
        statement = statement.with_hint(f"FORCE INDEX ({index})", dialect_name=name)
    return statement


def joined_as_written(statement: Select[*Columns]) -> Select[*Columns]:
    """`statement` reading its tables in the order of its joins; other databases decide for themselves."""
    for name in _NAMES:
        statement = statement.prefix_with("STRAIGHT_JOIN", dialect=name)
    return statement


def delete_by(table: Table, index: str) -> Delete:
    """A DELETE from `table` that finds its rows by `index`; for MySQL and MariaDB alone.

    They take a hint only in the form of DELETE that names its table twice.
    """
    return delete(table).prefix_with(_Named(table)).with_hint(f"FORCE INDEX ({index})")


class _Named(ColumnElement[Any]):
    """The name of a table as the statement around it writes it, translated schema included."""

    inherit_cache = False

    def __init__(self, table: Table) -> None:
        self.table = table


@compiles(_Named)
def _name(element: _Named, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.table, asfrom=True, **options))
