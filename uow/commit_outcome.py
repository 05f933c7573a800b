"""What became of a COMMIT whose answer was lost."""

from enum import StrEnum
from typing import Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from uow.sql.fault import Fault, fault_of
from uow.sql.transaction_status import transaction_status

_MYSQL_CLIENT_ERRORS: Final = range(2000, 3000)


class CommitOutcome(StrEnum):
    """What the database says about one transaction."""

    COMMITTED = "committed"
    """Everything the unit wrote is kept."""
    ROLLED_BACK = "rolled back"
    """Nothing the unit wrote is kept; the operation may be repeated."""
    IN_PROGRESS = "in progress"
    """The server has not noticed yet that its client is gone; ask again."""
    UNKNOWN = "unknown"
    """The database cannot tell: not PostgreSQL, no id, too long ago, or a replica that lags behind."""


_BY_STATUS: Final = {
    "committed": CommitOutcome.COMMITTED,
    "aborted": CommitOutcome.ROLLED_BACK,
    "in progress": CommitOutcome.IN_PROGRESS,
}


async def ask_commit_outcome(engine: AsyncEngine, transaction_id: str | None) -> CommitOutcome:
    """The outcome of the transaction that a CommitOutcomeUnknownError names; one statement on PostgreSQL.

    Ask the primary that ran it: another server, or a replica, gives transactions other ids or none.
    Raises ValueError when `transaction_id` is neither None nor a row of decimal digits.
    """
    if transaction_id is None:
        return CommitOutcome.UNKNOWN
    async with engine.connect() as connection:
        status = await connection.run_sync(transaction_status, transaction_id)
    return CommitOutcome.UNKNOWN if status is None else _BY_STATUS[status]


def is_refusal(error: BaseException) -> bool:
    """Whether `error`, raised by COMMIT, is the database's own answer, so that surely nothing was kept.

    Anything else (a lost connection, a cancelled wait, a driver's complaint without a code) is not.
    """
    if not isinstance(error, DBAPIError) or error.connection_invalidated:
        return False
    if fault_of(error) is Fault.CONNECTION_LOST:
        return False
    driver_error = error.orig
    if isinstance(getattr(driver_error, "sqlite_errorcode", None), int):
        return True
    if isinstance(getattr(driver_error, "sqlstate", None), str):
        return True
    number = driver_error.args[0] if driver_error is not None and driver_error.args else None
    return isinstance(number, int) and number > 0 and number not in _MYSQL_CLIENT_ERRORS
