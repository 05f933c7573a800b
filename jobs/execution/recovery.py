"""Recovering the jobs of executors that have died."""

import logging
import random
from collections.abc import Mapping
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.answer import ExpiredAttempt, Recovered, Settled
from jobs.execution.handler import JobHandler
from jobs.store import JobStore
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest
from uow.telemetry import JobOutcome, record_job

_PAGE: Final = 100
_LONGEST_PAUSE_SECONDS: Final = 30.0
_LONGEST_DELAY_SECONDS: Final = 900.0
_DOUBLINGS: Final = 10

_log: Final = logging.getLogger(__name__)


class Recovery:
    """Ends attempts whose lease has expired, at the start and then twice in each lease, page by page.

    A job runs again where its handler allows that and attempts are left: at once after its first attempt,
    later at a moment drawn from one lease, then two, four and so on, so that the jobs that one process had in
    hand do not meet again: one of them may be what ends it. What becomes of a job whose handler is not here
    is left to executors that have it, for a day: then it ends as interrupted. Any number of executors recover
    side by side.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: JobStore,
        handlers: Mapping[tuple[str, int], JobHandler],
        *,
        stop: StopRequest,
    ) -> None:
        self._engine = engine
        self._store = store
        self._handlers = handlers
        self._stop = stop
        self.health = LoopHealth(name="recovery of jobs")

    async def run(self) -> None:
        """Recover until the stop. After an error call it again."""
        pause = min(self._store.ground.options.lease_seconds / 2, _LONGEST_PAUSE_SECONDS)
        while True:
            while await self._recover_page() and not self._stop.requested:
                self.health.tick()
            self.health.tick()
            if await self._stop.sleep(pause):
                return

    async def _recover_page(self) -> bool:
        recovered = await loop_step(
            self._engine,
            lambda connection: self._store.recover_expired(
                connection,
                limit=_PAGE,
                handlers=self._handlers.keys(),
                requeue=self._may_run_again,
                delay_seconds=self._delay_seconds,
            ),
        )
        for each in recovered:
            _tell(each)
        return len(recovered) == _PAGE

    def _may_run_again(self, attempt: ExpiredAttempt) -> bool:
        handler = self._handlers.get((attempt.handler, attempt.handler_version))
        return handler is not None and handler.requeue_interrupted

    def _delay_seconds(self, attempt: ExpiredAttempt) -> float:
        lost_before = attempt.reference.ordinal - 1
        if lost_before < 1:
            return 0.0
        within = self._store.ground.options.lease_seconds * 2.0 ** min(lost_before - 1, _DOUBLINGS)
        return random.random() * min(within, _LONGEST_DELAY_SECONDS)  # noqa: S311 - spreads the attempts


def _tell(recovered: Recovered) -> None:
    attempt, settled = recovered.attempt, recovered.settled
    if settled is Settled.FENCED:
        return
    record_job(handler=attempt.handler, queue="", outcome=JobOutcome.RECOVERED, seconds=None)
    _log.warning(
        "job %s, attempt %d of %s was lost with its executor %s: %s",
        attempt.reference.job_id,
        attempt.reference.ordinal,
        attempt.handler,
        attempt.owner,
        settled,
    )
