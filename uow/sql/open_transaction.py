"""Whether the driver itself says that a transaction is open."""

from typing import Any

from sqlalchemy import Connection


def has_open_transaction(connection: Connection) -> bool | None:
    """What the driver last heard from its server, without a round trip; None when it does not say.

    SQLAlchemy believes in a transaction until it ends it itself. The drivers hear more: a procedure that
    commits, several statements in one text, an ON CONFLICT ROLLBACK of SQLite.
    """
    driver: Any = connection.connection.driver_connection
    in_transaction = getattr(driver, "in_transaction", None)
    if isinstance(in_transaction, bool):  # aiosqlite
        return in_transaction
    for method in ("is_in_transaction", "get_transaction_status"):  # asyncpg; asyncmy and aiomysql
        if hasattr(driver, method):
            return bool(getattr(driver, method)())
    status = getattr(getattr(driver, "info", None), "transaction_status", None)  # psycopg, where idle is 0
    return None if status is None else bool(status)
