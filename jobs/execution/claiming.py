"""The loop that claims jobs while there are free slots, and starts their handlers."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.execution.argument_budget import ArgumentBudget
from jobs.execution.claim import Claimer
from jobs.execution.options import ExecutorOptions
from jobs.execution.queue_shares import QueueShare, QueueShares
from jobs.execution.unknown_handlers import UnknownHandlers
from jobs.snapshot import StartedJob
from uow.loop.polling import AdaptivePolling
from uow.loop.slots import Slots
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest, unless_stopped
from uow.sql.step import finish_despite_cancellation
from uow.wake import Waiter, WakeSignal

Start = Callable[[tuple[StartedJob, ...], float], None]
"""Begins to run jobs that were claimed at this `time.monotonic()` or later; each holds a slot."""


class Claiming:
    """Claims as many jobs as there are free slots, again at once while there are some, else after a wait.

    A wake-up ends a wait; polling goes on whatever becomes of wake-ups.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        claimer: Claimer,
        start: Start,
        *,
        options: ExecutorOptions,
        wake: WakeSignal,
        stop: StopRequest,
    ) -> None:
        self._engine = engine
        self._claimer = claimer
        self._start = start
        self._wake = wake
        self._stop = stop
        self._poll_interval_seconds = options.poll_interval_seconds
        self._slots = Slots(options.concurrency)
        self._shares = QueueShares(options)
        self._budget = ArgumentBudget(options.argument_bytes)
        self._reserved = 0
        self._held_back = False
        self._waiter: Waiter | None = None
        self._unknown = UnknownHandlers()
        self.health = LoopHealth(name="claiming of jobs")

    async def run(self) -> None:
        """Claim until the stop. After an error call it again."""
        with self._wake.waiter() as waiter:
            self._waiter = waiter
            polling = AdaptivePolling(waiter, maximum_seconds=self._poll_interval_seconds)
            while not self._stop.requested:
                free = await unless_stopped(self._slots.reserve(self._slots.limit), self._stop)
                if free is None:
                    return
                looked_at = await self._claim(free)
                self.health.tick()
                await asyncio.sleep(0)  # jobs that end at once do so now: the next claim is a whole one
                if looked_at:
                    polling.found()
                elif not self._stop.requested:
                    await polling.wait()

    def ended(self, job: StartedJob) -> None:
        """The handler of a job that was started has ended: its slot is free."""
        self._slots.give_back()
        self._budget.give_back(job)
        self._shares.ended(job.queue)
        if self._held_back and self._waiter is not None:
            self._waiter.wake()

    def makes_room(self, queue: str) -> bool:
        """Whether executors should look for jobs of `queue` once one of them is settled."""
        return self._shares.is_limited_everywhere(queue)

    async def _claim(self, free: int) -> int:
        """How many due jobs were looked at."""
        looked_at = 0
        self._held_back = False
        self._reserved = free
        try:
            for queues in self._shares.next_shares():
                share = self._shares.share(queues, self._budget.limit(self._reserved))
                if self._stop.requested or share.limit < 1:
                    self._held_back = True
                    continue
                # What is claimed is begun, even when the claim is cancelled: then it is stopped as planned.
                looked_at += await finish_despite_cancellation(self._claim_share(share))
        finally:
            self._slots.give_back(self._reserved)
        return looked_at

    async def _claim_share(self, share: QueueShare) -> int:
        claimed_at = time.monotonic()
        report = await loop_step(self._engine, partial(self._claimer.claim, share=share))
        self._unknown.tell(report)
        self._budget.take(report.started)
        self._shares.began(job.queue for job in report.started)
        self._reserved -= len(report.started)
        self._start(report.started, claimed_at)
        return report.looked_at
