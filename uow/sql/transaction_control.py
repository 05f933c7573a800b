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
# SQLAlchemy's own savepoints are named sa_savepoint_1 and so on; they are followed by their events.
_ROLLBACK: Final = re.compile(
    _BEGINNING + r"(?:ABORT|ROLLBACK(?!\s+TO\s+SAVEPOINT\s+sa_savepoint_))\b", re.IGNORECASE | re.DOTALL
)
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
    """Whether `statement` rolls back the transaction, or a savepoint that SQLAlchemy knows nothing of."""
    return _ROLLBACK.match(statement) is not None
