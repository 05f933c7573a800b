"""Watching over running attempts: has someone asked for their end, are they still ours?"""

import time
from collections.abc import Collection, Mapping

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.answer import ExecutionStatus
from jobs.execution.attempt_run import AttemptRun
from jobs.execution.stop_reason import StopReason
from jobs.key import AttemptReference
from jobs.options import BATCH_LIMIT
from jobs.store import JobStore
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest


class CancellationWatch:
    """Hears within `poll_seconds` what is asked of a running attempt; looks at a thousand in one query.

    One that has not run for a third of that time is not asked about, so short jobs cost nothing; therefore it
    looks every two thirds.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: JobStore,
        runs: Mapping[AttemptReference, AttemptRun],
        *,
        poll_seconds: float,
        stop: StopRequest,
    ) -> None:
        self._engine = engine
        self._store = store
        self._runs = runs
        self._unasked_seconds = poll_seconds / 3
        self._pause_seconds = poll_seconds - self._unasked_seconds
        self._stop = stop
        self.health = LoopHealth(name="watch over running jobs")

    async def run(self) -> None:
        """Watch until the stop. After an error call it again."""
        while not await self._stop.sleep(self._pause_seconds):
            await self._look()
            self.health.tick()

    async def _look(self) -> None:
        begun_before = time.monotonic() - self._unasked_seconds
        references = [
            reference
            for reference, run in self._runs.items()
            if run.begun_at <= begun_before and run.stop_reason is None
        ]
        for first in range(0, len(references), BATCH_LIMIT):
            await self._look_at(references[first : first + BATCH_LIMIT])

    async def _look_at(self, references: Collection[AttemptReference]) -> None:
        statuses = await loop_step(
            self._engine, lambda connection: self._store.execution_status_many(connection, references)
        )
        for reference, status in statuses.items():
            run = self._runs.get(reference)
            if run is None:
                continue
            match status:
                case ExecutionStatus.CANCEL_REQUESTED:
                    run.ask_to_stop(StopReason.CANCEL_REQUESTED)
                case ExecutionStatus.ENDED:
                    run.ask_to_stop(StopReason.LEASE_LOST)
                case ExecutionStatus.ACTIVE:
                    pass
