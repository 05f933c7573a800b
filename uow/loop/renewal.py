"""Renews the leases of work in hand, from a thread with an event loop and a connection of its own.

A handler that blocks the application's event loop must not lose its lease to another process and run
twice, so renewal cannot live in that loop; the connections of async drivers belong to one loop, so the
thread has its own. Since a handler may also block for ever, each lease says until when it is renewed.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from uow.secret import describe_error
from uow.sql.dialect import database_of
from uow.sql.sibling import sibling_engine

Key = TypeVar("Key", bound=Hashable)
Renew = Callable[[Connection, Collection[Key]], Collection[Key]]
"""Prolongs these leases in one short transaction; returns those that are held no longer."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    expires_at: float
    until: float
    loop: asyncio.AbstractEventLoop
    on_lost: Callable[[Any], None]


class LeaseKeeper(Generic[Key]):
    """Renews each lease when a third of it has passed; what could not be renewed in time is lost.

    One thread, begun with the first lease; all that are due are renewed together. An outage of the
    database is retried until the lease runs out by this machine's clock, which began before the
    database's did; then it is lost, since another owner may have it. All methods are thread-safe.
    """

    def __init__(self, engine: AsyncEngine, renew: Renew[Key], *, lease_seconds: float, name: str) -> None:
        self._engine = engine
        self._renew = renew
        self._lease_seconds = lease_seconds
        self._name = name
        self._lock = threading.Lock()
        self._leases: dict[Key, _Held] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._wake: Callable[[], object] | None = None

    def hold(
        self,
        keys: Iterable[Key],
        *,
        claimed_at: float,
        until: float = float("inf"),
        on_lost: Callable[[Key], None] = lambda key: None,
    ) -> None:
        """Begin to renew what was claimed at `claimed_at` or later, and stop renewing at `until`.

        Both are `time.monotonic()`. `on_lost` is called in the running event loop for each lost lease.
        """
        loop = asyncio.get_running_loop()
        expires_at = claimed_at + self._lease_seconds
        with self._lock:
            for key in keys:
                self._leases[key] = _Held(expires_at, until, loop, on_lost)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def let_go(self, keys: Iterable[Key]) -> None:
        """Renew these no longer: their work has ended."""
        with self._lock:
            for key in keys:
                self._leases.pop(key, None)

    def still_held(self, keys: Iterable[Key]) -> frozenset[Key]:
        """Those of `keys` that are ours as far as we know."""
        now = time.monotonic()
        with self._lock:
            return frozenset(key for key in keys if (held := self._leases.get(key)) and held.expires_at > now)

    async def close(self) -> None:
        """End the thread; what is still held runs out by itself."""
        self._closing.set()
        with self._lock:
            thread, self._thread = self._thread, None
            wake, self._wake = self._wake, None
        if wake is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                wake()
        if thread is not None:
            await asyncio.to_thread(thread.join, self._lease_seconds)

    def _run(self) -> None:
        asyncio.run(self._renew_until_closed())

    async def _renew_until_closed(self) -> None:
        sibling = sibling_engine(self._engine)
        isolation = database_of(sibling).claim_isolation
        source = sibling.execution_options(isolation_level=isolation) if isolation else sibling
        woken = asyncio.Event()
        with self._lock:
            self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
        renewing: asyncio.Task[None] | None = None
        try:
            while not self._closing.is_set():
                self._expire()
                if renewing is None or renewing.done():
                    renewing = asyncio.create_task(self._renew_due(source))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(self._lease_seconds / 10, 0.5)):
                        await woken.wait()
        finally:
            if renewing is not None:
                renewing.cancel()
                await asyncio.wait([renewing])
            await sibling.dispose()

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            expired = [key for key, held in self._leases.items() if held.expires_at <= now]
        self._lose(expired)

    def _lose(self, keys: Collection[Key]) -> None:
        for key in keys:
            with self._lock:
                held = self._leases.pop(key, None)
            if held is not None:
                with contextlib.suppress(RuntimeError):  # the owner's loop has ended, nobody to tell
                    held.loop.call_soon_threadsafe(held.on_lost, key)

    async def _renew_due(self, source: AsyncEngine) -> None:
        now = time.monotonic()
        soon = now + self._lease_seconds * 2 / 3
        with self._lock:
            due = [key for key, held in self._leases.items() if held.expires_at <= soon and now < held.until]
        if not due:
            return
        try:
            # Not `run_step`: a renewal that hangs on a dead connection has to be given up.
            async with asyncio.timeout(self._lease_seconds), source.begin() as connection:
                lost = await connection.run_sync(self._renew, due)
        except Exception as error:  # noqa: BLE001 - logged; tried again until the leases run out
            _log.warning("%s: leases could not be renewed: %s", self._name, describe_error(error))
            return
        self._lose(lost)
        with self._lock:
            for key in due:
                if (held := self._leases.get(key)) is not None:
                    held.expires_at = now + self._lease_seconds
