"""SQLite made fit for concurrent units of work: WAL, a busy timeout and BEGIN IMMEDIATE."""

import contextlib
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util.concurrency import in_greenlet

from uow.errors import FixTheCodeError

BEGIN_OPTION: Final = "sqlite_begin"


class InMemorySqliteError(FixTheCodeError):
    """An in-memory SQLite database has one connection that all sessions would share; use a file."""


def prepare_sqlite(engine: AsyncEngine | Engine, *, busy_timeout_seconds: float = 30.0) -> None:
    """Let many units and processes write one SQLite file; call it once, right after creating the engine.

    Sets WAL and `busy_timeout_seconds` on each new connection and begins every transaction IMMEDIATE,
    because a deferred one that reads and then writes fails at once with "database is locked", whatever
    the timeout. Reading sessions that should not wait for writers can use
    `engine.execution_options(sqlite_begin="DEFERRED")`. Engines of other databases are left alone.
    Raises InMemorySqliteError for an in-memory database.
    """
    sync_engine = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    if sync_engine.dialect.name != "sqlite" or event.contains(sync_engine, "begin", _begin):
        return
    if sync_engine.url.database in {None, "", ":memory:"} or "mode=memory" in str(sync_engine.url):
        raise InMemorySqliteError(
            "an in-memory SQLite database cannot be shared by concurrent units; "
            "use a file, for example sqlite+aiosqlite:///app.db"
        )

    def configure(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.isolation_level = None  # the driver must not begin by itself
        cursor = dbapi_connection.cursor()
        try:
            cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout_seconds * 1000)}")
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute("PRAGMA foreign_keys = ON")
        finally:
            cursor.close()

    def roll_back(dbapi_connection: Any, _record: Any) -> None:
        # A statement that was cancelled half-way leaves a cursor behind, and SQLite keeps a closed
        # connection's transaction, and its lock on the file, for as long as such a cursor exists.
        if not sync_engine.dialect.is_async or in_greenlet():
            with contextlib.suppress(sync_engine.dialect.loaded_dbapi.Error):
                dbapi_connection.rollback()

    event.listen(sync_engine, "connect", configure)
    event.listen(sync_engine, "close", roll_back)
    event.listen(sync_engine, "begin", _begin)


def sqlite_file(engine: AsyncEngine | Engine) -> Path | None:
    """The file of a SQLite database given by a plain path; None for other databases."""
    database = engine.url.database
    if engine.dialect.name != "sqlite" or not database or database.startswith("file:"):
        return None
    return Path(database)


def _begin(connection: Connection) -> None:
    mode = connection.get_execution_options().get(BEGIN_OPTION, "IMMEDIATE")
    if mode not in {"IMMEDIATE", "DEFERRED", "EXCLUSIVE"}:
        raise FixTheCodeError(f"{BEGIN_OPTION} must be IMMEDIATE, DEFERRED or EXCLUSIVE, not {mode!r}")
    connection.exec_driver_sql(f"BEGIN {mode}")
