"""Telling MySQL and MariaDB which index to use, where another plan would lock rows it only reads."""

from typing import Any, Final, TypeVar, TypeVarTuple

from sqlalchemy import Delete, FromClause, Select, Update

PRIMARY: Final = "PRIMARY"

Columns = TypeVarTuple("Columns")
Change = TypeVar("Change", Update, Delete)

_NAMES: Final = ("mysql", "mariadb")


def read_by(statement: Select[*Columns], table: FromClause, index: str) -> Select[*Columns]:
    """`statement` reading `table` by `index`; other databases decide for themselves.

    InnoDB locks each row that a locking read scans, so a plan that scans or sorts more than it takes
    blocks or deadlocks others.
    """
    for name in _NAMES:
        statement = statement.with_hint(table, f"FORCE INDEX ({index})", name)
    return statement


def change_by(statement: Change, index: str) -> Change:
    """`statement` finding its rows by `index`; other databases decide for themselves."""
    hinted: Any = statement
    for name in _NAMES:
        hinted = hinted.with_hint(f"FORCE INDEX ({index})", dialect_name=name)
    return hinted  # type: ignore[no-any-return]
