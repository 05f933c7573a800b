"""A limit on running handlers, of one consumer or of all, shared by broker deliveries and the inbox pump."""

import asyncio
from collections import deque


class Slots:
    """A fixed number of places for running handlers; who asked first is served first.

    For one event loop. Everything granted must be given back.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._in_use = 0
        self._paused = False
        self._waiting: deque[tuple[int, asyncio.Future[int]]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def in_use(self) -> int:
        """How many are granted and not given back."""
        return self._in_use

    def request(self, wanted: int) -> asyncio.Future[int]:
        """How many of `wanted` (at least 1) may be used now; done as soon as there is one.

        Cancel it to leave the queue; one that is done already has to be given back.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        self._grant()
        return future

    async def reserve(self, wanted: int) -> int:
        """As `request`, awaited; cancelling it leaves nothing granted."""
        future = self.request(wanted)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.done():
                self.give_back(future.result())
            future.cancel()
            raise

    def give_back(self, count: int = 1) -> None:
        """End the use of `count` slots."""
        self._in_use -= count
        if self._in_use == 0:
            self._idle.set()
        self._grant()

    def pause(self) -> None:
        """Grant nothing until `resume`; what is in use stays so."""
        self._paused = True

    def resume(self) -> None:
        """Grant again."""
        self._paused = False
        self._grant()

    def take_paused(self) -> None:
        """Use one slot although grants are paused; for the one who has paused them."""
        self._in_use += 1
        self._idle.clear()

    async def idle(self) -> None:
        """Wait until nothing is in use."""
        await self._idle.wait()

    def _grant(self) -> None:
        while self._waiting and self._in_use < self.limit and not self._paused:
            wanted, future = self._waiting.popleft()
            if future.done():  # cancelled by who asked
                continue
            granted = min(wanted, self.limit - self._in_use)
            self._in_use += granted
            self._idle.clear()
            future.set_result(granted)
