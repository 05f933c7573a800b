"""The isolation level that was chosen, and whether a connection commits each statement by itself."""

from typing import Any, Final

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncEngine

_AUTOCOMMIT: Final = "AUTOCOMMIT"


def chosen_isolation(bind: Engine | Connection | AsyncEngine) -> str | None:
    """The isolation level that `bind` was configured for in SQLAlchemy's words; None when none was chosen."""
    level = bind.get_execution_options().get("isolation_level")
    # SQLAlchemy shows no public reading of `create_engine(isolation_level=...)`.
    return level or getattr(bind.dialect, "_on_connect_isolation_level", None)


def is_set_to_autocommit(bind: Engine | Connection) -> bool:
    """Whether `bind` was configured for AUTOCOMMIT in SQLAlchemy's words; no I/O."""
    return chosen_isolation(bind) == _AUTOCOMMIT


def commits_by_itself(connection: Connection) -> bool:
    """Whether the driver of a connection that has begun a transaction is in autocommit; no round trip.

    Finds what was set beside SQLAlchemy too (`connect_args={"autocommit": True}`).
    """
    driver = connection.connection.dbapi_connection
    if driver is None or not connection.dialect.detect_autocommit_setting(driver):
        return False
    # SQLite's driver set to begin nothing by itself looks the same; there an explicit BEGIN counts.
    return not begun_on_sqlite(connection)


def begun_on_sqlite(connection: Connection) -> bool:
    """Whether SQLite itself says that a transaction is open; False for every other database."""
    driver: Any = connection.connection.driver_connection
    return getattr(driver, "in_transaction", False) is True
