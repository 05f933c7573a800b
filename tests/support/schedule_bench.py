"""Executors that run the jobs of schedules, quick in all they do, on the clock of the database."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from jobs.completion import JobCompletionParticipant
from jobs.execution.executor import JobExecutor
from jobs.execution.options import ExecutorOptions
from jobs.execution.registry import JobRegistry
from jobs.options import JobOptions
from jobs.participant import JobParticipant
from jobs.schedule.declaring.catalog import ScheduleCatalog
from jobs.schedule.hosting.envelope import AuditEnvelope
from jobs.schedule.storing.ground import SCOPE
from jobs.schedule.storing.run_record import RunRecord
from tests.support.job_bench import QUICK
from tests.support.schedules import NAME, StoredSchedules, catalog_of, schedule
from tests.support.waiting import eventually
from uow.sql.clock import DatabaseClock
from uow.unit import SelfManagedUnitOfWork
from uow.wake import WakeSignal


class ScheduleBench(StoredSchedules):
    """Runs of one schedule, asked for by an operator, and executors for them."""

    def __init__(self, engine: AsyncEngine, *, lease_seconds: float = 60.0) -> None:
        super().__init__(engine, DatabaseClock(), JobOptions(lease_seconds=lease_seconds))
        self.signal = WakeSignal()
        self.sessions = async_sessionmaker(engine, expire_on_commit=False)
        store = self.jobs.store
        self.participants = (JobParticipant(store, on_committed=self.wake), JobCompletionParticipant(store))

    def wake(self) -> None:
        super().wake()
        self.signal()

    def unit(self) -> SelfManagedUnitOfWork:
        return SelfManagedUnitOfWork(self.sessions, self.participants)

    def executor(self, schedules: ScheduleCatalog, **options: Any) -> JobExecutor:
        """An executor of the jobs of these that does not run yet."""
        envelope = AuditEnvelope(self.engine, self.store, self.unit)
        registry = JobRegistry()
        for each in schedules.values():
            registry.add(envelope.handler_of(each))
        return JobExecutor(
            self.engine,
            self.jobs.store,
            [registry],
            leases=self.leases,
            unit_of_work=self.unit,
            wake=self.signal,
            options=ExecutorOptions(**QUICK | options),
        )

    @contextlib.asynccontextmanager
    async def executing(self, schedules: ScheduleCatalog, **options: Any) -> AsyncIterator[JobExecutor]:
        """Run one while the block runs; then stop it gracefully."""
        executor = self.executor(schedules, **options)
        task = asyncio.create_task(executor.run())
        try:
            yield executor
        finally:
            executor.stop()
            await asyncio.wait([task], timeout=30)
            assert task.done(), "it did not stop"
        task.result()

    async def asked(self, work: Any, **fields: Any) -> tuple[ScheduleCatalog, RunRecord]:
        """The schedule, whose work is `work`, and a run of it that an operator asked for."""
        schedules = catalog_of(schedule(**fields), work=work)
        run = await self.client(schedules).trigger(NAME, actor="ann", reason="test")
        return schedules, run

    async def run(self, work: Any, **fields: Any) -> RunRecord:
        """The run of this work, once it is executed and settled."""
        schedules, run = await self.asked(work, **fields)
        async with self.executing(schedules):
            await self.ended(run)
        return await self.settled(run)

    async def ended(self, run: RunRecord) -> None:
        """Wait until its job has ended."""

        async def over() -> bool:
            return (await self.job(run)).completed is not None

        await eventually(over, 20.0)

    async def settled(self, run: RunRecord) -> RunRecord:
        """Its record after a host has looked at what has ended."""
        await self.step(self.store.settle_runs)
        return await self.found(run)

    async def found(self, run: RunRecord) -> RunRecord:
        """Its record as it stands."""
        found = await self.step(self.store.find_run, run.run_id)
        assert found is not None
        return found

    async def attempts(self, run: RunRecord) -> list[tuple[str, str | None]]:
        """How each attempt at its job ended, and its error code."""
        attempts = await self.step(self.jobs.store.attempts, SCOPE, run.job_id)
        return [(each.state.value, each.error_code) for each in attempts]
