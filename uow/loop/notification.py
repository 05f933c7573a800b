"""Listens for commits of other processes, and notices when it has become deaf."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from uow.backoff import Backoff
from uow.errors import TryAgainError
from uow.loop.ears import Ears, ears_of, speak
from uow.loop.supervision import LoopHealth, StopRequest, run_with_grace, supervise
from uow.sql.dialect import database_of
from uow.sql.sibling import sibling_engine

_log: Final = logging.getLogger(__name__)
_PROBE: Final = "probe "
_PAUSES: Final = Backoff(initial_seconds=0.25, maximum_seconds=5.0, jitter=0.3)


class DeafListenerError(TryAgainError):
    """We did not hear our own probe: a pooler or a dead connection lies between us and the notifications."""


class NotificationListener:
    """Calls `calls[channel]` for each notification of that channel, in bursts once.

    Every `probe_seconds` it notifies itself; when the probe is not heard within `answer_seconds`, the
    connection is given up and made anew, and everyone is woken, since something may have been missed.
    Nobody depends on it: loops poll whatever becomes of it. On databases without notifications `run`
    returns at once.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        calls: Mapping[str, Callable[[], None]],
        *,
        probe_seconds: float = 15.0,
        answer_seconds: float = 5.0,
    ) -> None:
        self._engine = engine
        self._calls = calls
        self._probe_seconds = probe_seconds
        self._answer_seconds = answer_seconds
        self._stop = StopRequest()
        self.health = LoopHealth(name="notification listener")
        self.hearing = False
        self.connections = 0

    async def run(self) -> None:
        """Listen until `stop`, connecting again whenever it must."""
        if not database_of(self._engine).notify:
            return
        body = supervise(self._listen, self.health, self._stop, pauses=_PAUSES)
        await run_with_grace(body, self._stop, grace_seconds=0, name=self.health.name, quiet=True)

    def stop(self) -> None:
        """End `run`."""
        self._stop.request()

    async def _listen(self) -> None:
        sibling = sibling_engine(self._engine).execution_options(isolation_level="AUTOCOMMIT")
        try:
            async with sibling.connect() as connection:
                async with asyncio.timeout(self._answer_seconds):
                    ears = await ears_of(connection)
                    await ears.listen(tuple(self._calls))
                self.connections += 1
                try:
                    await self._hear_and_probe(connection, ears)
                finally:
                    self.hearing = False
                    await connection.invalidate()
        finally:
            await sibling.dispose()

    async def _hear_and_probe(self, connection: AsyncConnection, ears: Ears) -> None:
        while True:
            await self._probe(connection, ears)
            if not self.hearing:
                self.hearing = True
                for call in self._calls.values():
                    call()
            self.health.tick()
            await self._hear_until(ears, time.monotonic() + self._probe_seconds)

    async def _probe(self, connection: AsyncConnection, ears: Ears) -> None:
        probe = f"{_PROBE}{uuid4().hex}"
        deadline = time.monotonic() + self._answer_seconds
        async with asyncio.timeout(self._answer_seconds):
            await speak(connection, next(iter(self._calls)), probe)
        if not await self._hear_until(ears, deadline, awaited=probe):
            raise DeafListenerError(
                f"notifications are not heard (our own did not come within {self._answer_seconds:g} s); "
                "a pooler that shares connections between transactions cannot carry LISTEN"
            )

    async def _hear_until(self, ears: Ears, deadline: float, *, awaited: str | None = None) -> bool:
        while (remaining := deadline - time.monotonic()) > 0:
            heard = await ears.hear(remaining)
            for channel in {channel for channel, payload in heard if not payload.startswith(_PROBE)}:
                if (call := self._calls.get(channel)) is not None:
                    call()
            if awaited is not None and any(payload == awaited for _channel, payload in heard):
                return True
        return False
