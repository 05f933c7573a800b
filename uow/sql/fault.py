"""What a database error means, read from SQLSTATE or errno, never from its text."""

from enum import StrEnum
from typing import Any, Final

from sqlalchemy.exc import DBAPIError


class Fault(StrEnum):
    """What the caller can do about a database error."""

    RETRY_TRANSACTION = "retry the transaction"
    CONNECTION_LOST = "connection lost"
    UNIQUE_VIOLATION = "unique violation"
    OTHER = "other"


_RETRY_STATES: Final = frozenset({"40001", "40P01", "55P03"})
_LOST_STATES: Final = frozenset({"57P01", "57P02", "57P03", "57P05"})
_RETRY_NUMBERS: Final = frozenset({1205, 1213, 1020, 3572})
_LOST_NUMBERS: Final = frozenset({1053, 1077, 1079, 1080, 1927, 2002, 2003, 2006, 2013, 2055, 4031})
_UNIQUE_NUMBERS: Final = frozenset({1062, 1586})
# SQLite primary codes (low byte): BUSY 5, LOCKED 6; extended: CONSTRAINT_UNIQUE, _PRIMARYKEY, _ROWID.
_SQLITE_BUSY: Final = frozenset({5, 6})
_SQLITE_UNIQUE: Final = frozenset({2067, 1555, 2579})


def fault_of(error: BaseException) -> Fault:
    """Classify an exception that came out of SQLAlchemy or a driver; OTHER when it says nothing known."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return Fault.CONNECTION_LOST
    for cause in _causes(error):
        if (fault := _fault_of_driver_error(cause)) is not Fault.OTHER:
            return fault
    return Fault.OTHER


def is_transient(error: BaseException) -> bool:
    """Whether the same transaction, begun anew, may succeed."""
    return fault_of(error) in {Fault.RETRY_TRANSACTION, Fault.CONNECTION_LOST}


def _causes(error: BaseException) -> list[BaseException]:
    """What it was made of, the driver's own error before what that was raised from.

    Not what was merely being handled at that time: business code may use a unit of work inside
    `except ConnectionError:` of another service.
    """
    chain: list[BaseException] = []
    pending: list[Any] = [error]
    while pending:
        current = pending.pop()
        if isinstance(current, BaseException) and not any(current is known for known in chain):
            chain.append(current)
            pending += [current.__cause__, getattr(current, "orig", None)]
    return chain


def _fault_of_driver_error(error: BaseException) -> Fault:
    if isinstance(error, OSError):
        return Fault.CONNECTION_LOST if isinstance(error, ConnectionError) else Fault.OTHER
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return _fault_of_sqlite(code)
    # MySQL's errno says more than its SQLSTATE (23000 is any constraint), so it is read first.
    if error.args and isinstance(error.args[0], int):
        return _fault_of_number(error.args[0])
    state = getattr(error, "sqlstate", None)
    return _fault_of_state(state) if isinstance(state, str) else Fault.OTHER


def _fault_of_sqlite(code: int) -> Fault:
    if code & 0xFF in _SQLITE_BUSY:
        return Fault.RETRY_TRANSACTION
    return Fault.UNIQUE_VIOLATION if code in _SQLITE_UNIQUE else Fault.OTHER


def _fault_of_state(state: str) -> Fault:
    if state in _RETRY_STATES:
        return Fault.RETRY_TRANSACTION
    if state in _LOST_STATES or state.startswith("08"):
        return Fault.CONNECTION_LOST
    return Fault.UNIQUE_VIOLATION if state == "23505" else Fault.OTHER


def _fault_of_number(number: int) -> Fault:
    if number in _RETRY_NUMBERS:
        return Fault.RETRY_TRANSACTION
    if number in _LOST_NUMBERS:
        return Fault.CONNECTION_LOST
    return Fault.UNIQUE_VIOLATION if number in _UNIQUE_NUMBERS else Fault.OTHER
