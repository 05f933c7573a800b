"""Retention and diagnostics of jobs: chores that one process of many does for all."""

import asyncio
from functools import partial
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.execution.diagnostics import JobDiagnostics
from jobs.execution.options import ExecutorOptions
from jobs.state import FINAL, JobState
from jobs.store import JobStore
from uow.loop.chore import Chore, owner_name
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest, run_with_grace, supervise
from uow.sql.lease import LeaseStore

_STATES: Final = sorted(FINAL)


class JobHousekeeping:
    """Deletes final jobs after the time of their state, in bounded batches, and samples what is stored.

    Each chore is a task of its own under a named lease of its own. Run it beside every executor; a process
    that does not lead a chore only asks for its lease.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: JobStore,
        leases: LeaseStore,
        *,
        options: ExecutorOptions | None = None,
    ) -> None:
        self._engine = engine
        self._store = store
        self._options = options or ExecutorOptions()
        self._stop = StopRequest()
        self.diagnostics = JobDiagnostics(engine, store, queues=self._options.queues)
        chore = partial(Chore, engine, leases, owner=owner_name(), stop=self._stop)
        self.chores = (
            chore(
                name="retention of jobs",
                interval_seconds=self._options.retention_interval_seconds,
                work=self._clean,
            ),
            chore(
                name="diagnostics of jobs",
                interval_seconds=self._options.diagnostics_interval_seconds,
                work=self.diagnostics.sample,
                stood_down=self.diagnostics.clear,
            ),
        )

    @property
    def health(self) -> tuple[LoopHealth, ...]:
        """How the chores stand."""
        return tuple(chore.health for chore in self.chores)

    async def run(self) -> None:
        """Keep house until `stop`."""
        grace_seconds = self._options.stop_grace_seconds
        await run_with_grace(
            self._run_all(), self._stop, grace_seconds=grace_seconds, name="housekeeping of jobs"
        )

    def stop(self) -> None:
        """End after the batch in hand, and give the leases up so that others follow at once."""
        self._stop.request()

    async def _run_all(self) -> None:
        # A group, since a cancelled gather() returns as soon as the first of them has ended.
        async with asyncio.TaskGroup() as group:
            for chore in self.chores:
                group.create_task(supervise(chore.run, chore.health, self._stop))

    async def _clean(self) -> bool:
        """One batch of each state; whether any of them may have more."""
        more = False
        for state in _STATES:
            more |= await self._clean_one(state)
        return more

    async def _clean_one(self, state: JobState) -> bool:
        limit = self._options.retention_batch_size
        if self._store.ground.options.retention_seconds(state) is None:
            return False
        return await loop_step(self._engine, lambda c: self._store.cleanup(c, state, limit=limit)) == limit
