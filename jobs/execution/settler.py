"""Ending attempts in batches, each as soon as the batch before is committed."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.answer import Settled
from jobs.key import AttemptReference
from jobs.options import BATCH_LIMIT
from jobs.settlement import Settlement
from jobs.store import JobStore
from uow.backoff import Backoff
from uow.loop.renewal import LeaseKeeper
from uow.loop.step import loop_step
from uow.loop.supervision import is_outage
from uow.secret import describe_error

_PAUSES: Final = Backoff(initial_seconds=0.1, maximum_seconds=2.0, jitter=0.3)

_log: Final = logging.getLogger(__name__)


class Settler:
    """Settles what attempts ended in; an outage of the database is waited for while their leases last."""

    def __init__(self, engine: AsyncEngine, store: JobStore, keeper: LeaseKeeper[AttemptReference]) -> None:
        self._engine = engine
        self._store = store
        self._keeper = keeper
        self._waiting: deque[tuple[Settlement, asyncio.Future[Settled | None]]] = deque()
        self._working: asyncio.Task[None] | None = None

    @property
    def backlog(self) -> int:
        """How many wait to be settled."""
        return len(self._waiting)

    def settle(self, settlement: Settlement) -> asyncio.Future[Settled | None]:
        """What became of the job; None when its lease ran out before it could be written."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[Settled | None] = loop.create_future()
        self._waiting.append((settlement, settled))
        self._work_on()
        return settled

    def let_go(self, reference: AttemptReference) -> None:
        """There is nothing to settle: its lease is renewed no longer."""
        self._keeper.let_go([reference])

    async def idle(self) -> None:
        """Wait until nothing waits to be settled."""
        while self._working is not None and not self._working.done():
            await asyncio.wait([self._working])

    def _work_on(self, _ended: asyncio.Task[None] | None = None) -> None:
        if self._waiting and (self._working is None or self._working.done()):
            self._working = asyncio.create_task(self._settle_all(), name="settling of jobs")
            # Cancelled, as when its event loop ends, it may leave some for another one.
            self._working.add_done_callback(self._work_on)

    async def _settle_all(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_LIMIT))]
            answers: Sequence[Settled | None] = [None] * len(batch)
            try:
                answers = await self._settle_batch([settlement for settlement, _ in batch])
            finally:
                self._keeper.let_go(settlement.reference for settlement, _ in batch)
                for (_, future), answer in zip(batch, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)

    async def _settle_batch(self, settlements: Sequence[Settlement]) -> Sequence[Settled | None]:
        failures = 0
        while True:
            held = self._keeper.still_held(each.reference for each in settlements)
            ours = [each for each in settlements if each.reference in held]
            if not ours:
                return [None] * len(settlements)
            try:
                answers = await loop_step(self._engine, partial(self._store.settle_many, settlements=ours))
            except Exception as error:  # noqa: BLE001 - logged; tried again, or left to the leases
                failures += 1
                if not is_outage(error):
                    return await self._settle_apart(settlements, error)
                _log.warning("%d ended attempts wait to be settled: %s", len(ours), describe_error(error))
                await asyncio.sleep(_PAUSES.delay_seconds(failures))
            else:
                found = {each.reference: answer for each, answer in zip(ours, answers, strict=True)}
                return [found.get(each.reference) for each in settlements]

    async def _settle_apart(
        self, settlements: Sequence[Settlement], error: Exception
    ) -> Sequence[Settled | None]:
        """One by one, so that one that cannot be written does not hold up the others."""
        if len(settlements) == 1:
            reference = settlements[0].reference
            _log.error(
                "attempt %d of job %s could not be settled and is left to its lease: %s",
                reference.ordinal,
                reference.job_id,
                describe_error(error),
            )
            return [None]
        return [answer for each in settlements for answer in await self._settle_batch([each])]
