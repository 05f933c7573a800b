"""Receiving PostgreSQL notifications on one connection, whichever async driver it is."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from uow.errors import FixTheCodeError, TryAgainError


class ListeningNotSupportedError(FixTheCodeError):
    """The driver cannot listen; use asyncpg or psycopg. Relays then find new events by polling only."""


class ListenerClosedError(TryAgainError):
    """The connection on which we listened is closed."""


class Ears(Protocol):
    """Hears notifications of the channels that it listens to."""

    async def listen(self, channels: Collection[str]) -> None:
        """Begin to listen."""
        ...

    async def hear(self, timeout_seconds: float) -> list[tuple[str, str]]:
        """The (channel, payload) pairs that have come, waiting for the first; empty after the timeout.

        Raises ListenerClosedError, or the driver's error, when the connection is gone.
        """
        ...


async def ears_of(connection: AsyncConnection) -> Ears:
    """Ears on an AUTOCOMMIT connection. Raises ListeningNotSupportedError for other drivers."""
    driver_connection: Any = (await connection.get_raw_connection()).driver_connection
    if hasattr(driver_connection, "add_listener"):
        return _CallbackEars(driver_connection)
    if hasattr(driver_connection, "notifies"):
        return _GeneratorEars(connection, driver_connection)
    raise ListeningNotSupportedError(f"{type(driver_connection).__module__} cannot listen for notifications")


async def speak(connection: AsyncConnection, channel: str, payload: str) -> None:
    """Notify `channel` at once, over an AUTOCOMMIT connection."""
    await connection.execute(select(func.pg_notify(channel, payload)))


class _CallbackEars:
    """asyncpg: calls back for each notification and at the end of the connection."""

    def __init__(self, driver_connection: Any) -> None:
        self._driver_connection = driver_connection
        self._heard: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()

    async def listen(self, channels: Collection[str]) -> None:
        self._driver_connection.add_termination_listener(lambda _connection: self._heard.put_nowait(None))
        for channel in channels:
            await self._driver_connection.add_listener(channel, self._take)

    def _take(self, _connection: Any, _process: int, channel: str, payload: str) -> None:
        self._heard.put_nowait((channel, payload))

    async def hear(self, timeout_seconds: float) -> list[tuple[str, str]]:
        try:
            async with asyncio.timeout(timeout_seconds):
                heard = [await self._heard.get()]
        except TimeoutError:
            return []
        while not self._heard.empty():
            heard.append(self._heard.get_nowait())
        if None in heard:
            raise ListenerClosedError("the database has closed the connection on which we listened")
        return [each for each in heard if each is not None]


class _GeneratorEars:
    """psycopg: yields notifications while it is asked for them, and keeps those that came in between."""

    def __init__(self, connection: AsyncConnection, driver_connection: Any) -> None:
        self._connection = connection
        self._notifies: Callable[..., Any] = driver_connection.notifies

    async def listen(self, channels: Collection[str]) -> None:
        quote = self._connection.dialect.identifier_preparer.quote_identifier
        for channel in channels:
            await self._connection.exec_driver_sql(f"LISTEN {quote(channel)}")

    async def hear(self, timeout_seconds: float) -> list[tuple[str, str]]:
        notifies = self._notifies(timeout=timeout_seconds, stop_after=1)
        return [(notify.channel, notify.payload) async for notify in notifies]
