"""Statements written as text that would begin, end or tear a transaction behind the unit of work."""

import re
from typing import Final

from uow.sql.dialect import Database

_BEGINNING: Final = r"\A(?:\s+|;|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
_COMMIT: Final = re.compile(
    _BEGINNING + r"(?:COMMIT|END|BEGIN(?!\s+NOT\s+ATOMIC)|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    r"|XA|SET\s+(?:@@)?(?:SESSION[\s.]+|LOCAL[\s.]+)?AUTOCOMMIT)\b",
    re.IGNORECASE | re.DOTALL,
)
_ROLLBACK: Final = re.compile(_BEGINNING + r"(?:ABORT|ROLLBACK)\b", re.IGNORECASE | re.DOTALL)
_TO_SAVEPOINT: Final = re.compile(
    _BEGINNING + r"ROLLBACK(?:\s+WORK|\s+TRANSACTION)?\s+TO\s+(?:SAVEPOINT\s+)?([^\s;]+)",
    re.IGNORECASE | re.DOTALL,
)
_SAVEPOINT: Final = re.compile(_BEGINNING + r"SAVEPOINT\s+([^\s;]+)", re.IGNORECASE | re.DOTALL)
_IMPLICIT_COMMIT: Final = re.compile(
    _BEGINNING + r"(?:(?:CREATE|DROP)(?!\s+(?:OR\s+REPLACE\s+)?TEMPORARY\b)|ALTER"
    r"|ANALYZE(?:\s+\w+)?\s+TABLE|CHECK\s+TABLE|FLUSH|GRANT"
    r"|LOCK\s+TABLES?|OPTIMIZE|RENAME|REPAIR|REVOKE|TRUNCATE|UNLOCK\s+TABLES?)\b",
    re.IGNORECASE | re.DOTALL,
)


def commits(statement: str, database: Database) -> bool:
    """Whether `statement`, by its first words, commits or begins anew the transaction it runs in."""
    if _COMMIT.match(statement):
        return True
    return database.definition_commits and _IMPLICIT_COMMIT.match(statement) is not None


def rolls_back(statement: str) -> bool:
    """Whether `statement` rolls back the whole transaction."""
    return _ROLLBACK.match(statement) is not None and _TO_SAVEPOINT.match(statement) is None


def opened_savepoint(statement: str) -> str | None:
    """The name of the savepoint that `statement` opens, if it does."""
    return _name(_SAVEPOINT.match(statement))


def rolled_back_savepoint(statement: str) -> str | None:
    """The name of the savepoint that `statement` rolls back to, if it does."""
    return _name(_TO_SAVEPOINT.match(statement))


def _name(found: re.Match[str] | None) -> str | None:
    return None if found is None else found.group(1).strip('"`[]').casefold()
