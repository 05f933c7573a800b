"""A transaction's id while it runs, and what became of it afterwards."""

from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from uow.sql.dialect import database_of

_CURRENT_ID: Final = text("SELECT CAST(pg_current_xact_id_if_assigned() AS text)")
_STATUS: Final = text("SELECT pg_xact_status(CAST(CAST(:id AS text) AS xid8))")
_ID_NOT_GIVEN_OUT_YET: Final = "22023"


def current_transaction_id(connection: Connection) -> str | None:
    """The id of the running transaction as decimal digits; None before it wrote, or where there is no id."""
    if not database_of(connection).transaction_status:
        return None
    found: str | None = connection.execute(_CURRENT_ID).scalar_one()
    return found


def transaction_status(connection: Connection, transaction_id: str) -> str | None:
    """`committed`, `aborted` or `in progress`; None when the database does not know (any more).

    Raises ValueError when `transaction_id` is not a row of decimal digits. The connection's transaction
    may be aborted afterwards; use it for nothing else.
    """
    if not (transaction_id.isascii() and transaction_id.isdecimal()):
        raise ValueError("a transaction id is a row of decimal digits")
    if not database_of(connection).transaction_status:
        return None
    try:
        found: str | None = connection.execute(_STATUS, {"id": transaction_id}).scalar_one()
    except DBAPIError as error:
        # A replica that lags behind has not seen this id.
        if getattr(error.orig, "sqlstate", None) == _ID_NOT_GIVEN_OUT_YET:
            return None
        raise
    return found
