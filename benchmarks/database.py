"""Databases for one measurement."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine


@asynccontextmanager
async def temporary_database(server: str) -> AsyncIterator[str]:
    """The URL of an empty database on this PostgreSQL or MariaDB server, dropped at the end."""
    name = f"selfmanaged_benchmark_{uuid4().hex[:8]}"
    force = " WITH (FORCE)" if server.startswith("postgresql") else ""
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.execute(text(f"CREATE DATABASE {name}"))
            try:
                yield make_url(server).set(database=name).render_as_string(hide_password=False)
            finally:
                await connection.execute(text(f"DROP DATABASE {name}{force}"))
    finally:
        await engine.dispose()
