"""Telling MySQL and MariaDB which index to use, where another plan would lock rows it only reads."""

from typing import Final, TypeVarTuple

from sqlalchemy import FromClause, Select, Update

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
