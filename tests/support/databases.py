"""A database of its own for each test, on every kind of server that is reachable."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

from sqlalchemy import MetaData, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from tests.support import services
from uow.sql.sqlite import prepare_sqlite

KINDS = ("sqlite", "postgresql", "mariadb")
_SERVERS = {"postgresql": services.POSTGRESQL, "mariadb": services.MARIADB}


@contextlib.asynccontextmanager
async def temporary_database_url(kind: str, directory: Path) -> AsyncIterator[str]:
    """The URL of a fresh, empty database, dropped at the end."""
    if kind == "sqlite":
        yield f"sqlite+aiosqlite:///{directory / f'{uuid4().hex}.db'}"
        return
    server = make_url(_SERVERS[kind].require())
    name = f"selfmanaged_{uuid4().hex[:12]}"
    collation = " CHARACTER SET utf8mb4" if kind == "mariadb" else ""
    await _on_server(server.render_as_string(hide_password=False), f"CREATE DATABASE {name}{collation}")
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        force = " WITH (FORCE)" if kind == "postgresql" else ""
        await _on_server(server.render_as_string(hide_password=False), f"DROP DATABASE {name}{force}")


async def _on_server(url: str, statement: str) -> None:
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.execute(text(statement))
    finally:
        await engine.dispose()


@contextlib.asynccontextmanager
async def engine_for(url: str, **options: object) -> AsyncIterator[AsyncEngine]:
    """An engine as the README tells users to build it; disposed at the end."""
    engine = create_async_engine(url, **options)
    prepare_sqlite(engine)
    try:
        yield engine
    finally:
        await engine.dispose()


async def create_tables(engine: AsyncEngine, metadata: MetaData) -> None:
    """Create all tables of `metadata`."""
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
