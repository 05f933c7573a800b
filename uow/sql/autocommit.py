"""Whether a connection commits each statement by itself."""

from typing import Any, Final

from sqlalchemy import Connection, Engine

_AUTOCOMMIT: Final = "AUTOCOMMIT"


def is_set_to_autocommit(bind: Engine | Connection) -> bool:
    """Whether `bind` was configured for AUTOCOMMIT in SQLAlchemy's words; no I/O."""
    level = bind.get_execution_options().get("isolation_level")
    # SQLAlchemy shows no public reading of `create_engine(isolation_level=...)`.
    return bool((level or getattr(bind.dialect, "_on_connect_isolation_level", None)) == _AUTOCOMMIT)


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
