"""Transactional handlers one after the other, where a database lets one transaction write at a time."""

import asyncio
import time
from typing import Final

from jobs.execution.attempt_run import AttemptRun

_PAUSE_SECONDS: Final = 0.15
"""SQLite has no queue: who waits for its write lock looks again every tenth of a second."""
_SHARE_OF_THE_LEASE: Final = 0.1


class WriteTurns:
    """One turn after the other, with a pause now and then in which leases are renewed and jobs settled.

    Without it handlers that follow one another closely would keep all others from writing, until the leases
    of the jobs that wait for their turn have run out.
    """

    def __init__(self, *, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._free = asyncio.Semaphore(1)
        self._free_since = float("-inf")
        self._others_wrote_at = float("-inf")

    async def take(self, run: AttemptRun) -> None:
        """Wait for the turn of this attempt; it ends when the attempt does, or is waited for no longer."""
        await self._free.acquire()
        run.over.add_done_callback(self._give_back)
        now = time.monotonic()
        if now - self._free_since >= _PAUSE_SECONDS:
            self._others_wrote_at = now
        elif now - self._others_wrote_at >= self._lease_seconds * _SHARE_OF_THE_LEASE:
            await asyncio.sleep(_PAUSE_SECONDS)
            self._others_wrote_at = time.monotonic()

    def _give_back(self, _over: asyncio.Future[None]) -> None:
        self._free_since = time.monotonic()
        self._free.release()
