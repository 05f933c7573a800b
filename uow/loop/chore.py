"""Work that one process of many does from time to time."""

import os
import socket
from collections.abc import Awaitable, Callable
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from uow.loop.leadership import Leadership
from uow.loop.supervision import LoopHealth, StopRequest
from uow.sql.lease import LeaseStore


def owner_name() -> str:
    """Who holds leases here: host, process, and a random part, since processes and containers share names."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{uuid4().hex[:8]}"


class Chore:
    """Does `work` every `interval_seconds`, the first time at once, while this process holds the lease.

    `work` returns whether there is more to do at once; the lease is renewed before each call. When another
    process holds the lease, `stood_down` is called instead. A holder that dies is followed after two
    intervals, one that stops at once.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        leases: LeaseStore,
        *,
        name: str,
        owner: str,
        interval_seconds: float,
        work: Callable[[], Awaitable[bool]],
        stood_down: Callable[[], None] = lambda: None,
        stop: StopRequest,
    ) -> None:
        self._leadership = Leadership(
            engine, leases, name=name, owner=owner, lease_seconds=2 * interval_seconds
        )
        self._interval_seconds = interval_seconds
        self._work = work
        self._stood_down = stood_down
        self._stop = stop
        self.health = LoopHealth(name=name)

    @property
    def leading(self) -> bool:
        """Whether this process is the one that does it."""
        return self._leadership.held is not None

    async def run(self) -> None:
        """Go on until the stop. After an error call it again."""
        while not self._stop.requested:
            while await self._leadership.lead() and not self._stop.requested and await self._work():
                self.health.tick()
            if not self.leading:
                self._stood_down()
            self.health.tick()
            if await self._stop.sleep(self._interval_seconds):
                break
        await self._leadership.stand_down()
        self._stood_down()
