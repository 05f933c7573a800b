"""The block of work that ends when its lease is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any


class LeaseBlock:
    """Runs the body of a lease in the caller's task, and cancels it when the lease is lost.

    lost: whether it was, as far as this process knows.
    """

    def __init__(self, lost_error: Callable[[], Exception]) -> None:
        self.lost = False
        self._lost_error = lost_error
        self._running: asyncio.Timeout | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The body. Raises the lost error in place of the cancellation by `lose`, and of no other."""
        # A timeout knows its own cancellation from that of others, however they meet.
        running = asyncio.timeout(None)
        try:
            async with running:
                self._running = running
                try:
                    yield
                finally:
                    self._running = None
        except TimeoutError as error:
            if not running.expired():
                raise
            raise self._lost_error() from error

    def lose(self, _lease: Any) -> None:
        """The lease is lost; called in the loop of the body, maybe after its end."""
        self.lost = True
        if self._running is not None:
            self._running.reschedule(asyncio.get_running_loop().time())
