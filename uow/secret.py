"""Text that people may see: addresses without passwords, errors without statements and values."""

import re
from typing import Final

from sqlalchemy.exc import DBAPIError, StatementError

from uow.errors import SelfManagedError

_LONGEST: Final = 500
_URL_PASSWORD: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.\-]*://)(?P<user>[^:/?#\s@]*):[^\s'\"]*@", re.IGNORECASE
)
_NAMED_SECRET: Final = re.compile(
    r"(?P<name>\b[\w\-]*(?:password|passwd|pwd|secret|token|access_key))=[^&\s'\"]+", re.IGNORECASE
)
# What says that the message quotes the values of a row: SQLSTATE classes, and numbers of MySQL for drivers
# that do not tell the state (duplicate entry, wrong or truncated value, value out of range).
_VALUE_STATES: Final = ("22", "23")
_VALUE_NUMBERS: Final = frozenset({1062, 1264, 1265, 1292, 1366, 1406, 1411, 1525, 1586, 3140})


def mask_secrets(text: str) -> str:
    """`text` with the password of every URL and every `password=...` in it replaced by `***`."""
    text = _URL_PASSWORD.sub(r"\g<scheme>\g<user>:***@", text)
    return _NAMED_SECRET.sub(r"\g<name>=***", text)


def describe_error(error: BaseException) -> str:
    """One error in words fit for a terminal or a log: no statement, no parameter, no password.

    An error of ours keeps its whole text; a database error keeps the first line of what the driver said,
    unless that line would quote values of a row; anything else is its class and its text, cut short.
    """
    if isinstance(error, SelfManagedError):
        return mask_secrets(str(error))
    if isinstance(error, StatementError):
        return _describe_database_error(error)
    return _class_and_text(error)


def _describe_database_error(error: StatementError) -> str:
    driver_error = error.orig
    if driver_error is None:
        return type(error).__name__
    if isinstance(error, DBAPIError) and _quotes_values(driver_error):
        return f"{type(error).__name__} ({type(driver_error).__name__}); its text is hidden, it quotes values"
    return _class_and_text(driver_error)


def _quotes_values(driver_error: BaseException) -> bool:
    state = getattr(driver_error, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith(_VALUE_STATES)
    if driver_error.args and driver_error.args[0] in _VALUE_NUMBERS:
        return True
    return type(driver_error).__name__ in {"IntegrityError", "DataError"}


def _class_and_text(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = mask_secrets(lines[0]) if lines else ""
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    name = type(error).__name__
    return f"{name}: {text}" if text else name
