"""Seeing on the server that a session waits for a lock."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.waiting import eventually

_WAITING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    "mysql": "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p"
    " ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = database()",
}


async def someone_waits(engine: AsyncEngine) -> None:
    """Return once a session of this database waits for a lock of another; not for SQLite."""

    async def waiting() -> bool:
        async with engine.connect() as connection:
            return bool(await connection.scalar(text(_WAITING[engine.dialect.name])))

    # MariaDB shows the same picture again as long as it is asked more often than every tenth of a second.
    await eventually(waiting, interval=0.15)
