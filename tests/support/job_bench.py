"""Executors of jobs on a database with business rows and an outbox, quick in all they do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any, Final, NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs import (
    AttemptRecord,
    AttemptReference,
    ExecutorOptions,
    JobExecutor,
    JobOptions,
    JobRegistry,
    JobSnapshot,
    JobSubmission,
    Submitted,
)
from relay.composition.parts import handler_sessions_on
from tests.support.job_shop import Shop, leases, metadata
from tests.support.jobs import SCOPE, StoredJobs
from tests.support.waiting import eventually
from uow.sql.clock import DatabaseClock
from uow.sql.lease import LeaseStore
from uow.wake import WakeSignal

QUICK: Final[dict[str, Any]] = {
    "poll_interval_seconds": 0.1,
    "status_poll_seconds": 0.05,
    "stop_grace_seconds": 10.0,
}
NEVER: Final = 600.0
"""An interval that no test waits for."""


class End(NamedTuple):
    """How a job stands, and its attempts."""

    state: str
    code: str | None
    detail: str | None
    result: str | None
    attempts: list[str]


class Bench(Shop):
    """Handlers of one registry, and executors that run them on the clock of the database.

    Whatever is staged or submitted here wakes the executors that were made here.
    """

    def __init__(self, engine: AsyncEngine, *, lease_seconds: float = 60.0) -> None:
        options = JobOptions(lease_seconds=lease_seconds)
        self.signal = WakeSignal()
        super().__init__(engine, StoredJobs(engine, options, DatabaseClock(), metadata))
        # On SQLite a look need not wait for whoever writes, nor keep anyone from writing.
        looking = engine.execution_options(sqlite_begin="DEFERRED")
        self.seen = StoredJobs(looking, options, DatabaseClock(), metadata)
        self.engine = engine
        self.sessions = handler_sessions_on(self.sessions, engine)
        self.registry = JobRegistry()

    def wake(self) -> None:
        super().wake()
        self.signal()

    def with_lease(self, lease_seconds: float) -> "Bench":
        """The same handlers and jobs with another lease."""
        bench = Bench(self.engine, lease_seconds=lease_seconds)
        bench.registry = self.registry
        return bench

    def executor(self, registry: JobRegistry | None = None, **options: Any) -> JobExecutor:
        """An executor that does not run yet; `options` are those of ExecutorOptions."""
        return JobExecutor(
            self.engine,
            self.jobs.store,
            [self.registry if registry is None else registry],
            leases=LeaseStore(leases),
            unit_of_work=self.unit,
            wake=self.signal,
            options=ExecutorOptions(**QUICK | options),
        )

    @contextlib.asynccontextmanager
    async def executing(self, *executors: JobExecutor, **options: Any) -> AsyncIterator[JobExecutor]:
        """Run them, or one that is made for that, while the block runs; then stop them gracefully."""
        chosen = executors or (self.executor(**options),)
        tasks = [asyncio.create_task(each.run()) for each in chosen]
        try:
            yield chosen[0]
        finally:
            for each in chosen:
                each.stop()
            await asyncio.wait(tasks, timeout=30)
            assert all(task.done() for task in tasks), "it did not stop"
        for task in tasks:
            task.result()

    async def submit(self, *requests: JobSubmission) -> list[Submitted]:
        """Store these and wake the executors."""
        submitted = await self.jobs.submit(*requests)
        self.signal()
        return list(submitted)

    async def run(self, *requests: JobSubmission, **options: Any) -> None:
        """Submit these and execute until no job is queued or running."""
        await self.submit(*requests)
        async with self.executing(**options):
            await self.over()

    async def over(self, timeout: float = 20.0) -> None:
        """Wait until no job is queued or running."""

        job = self.jobs.tables.job
        left = select(func.count()).select_from(job).where(job.c.state.in_(["queued", "running"]))

        async def nothing_left() -> bool:
            return await self.seen.step(lambda connection: connection.execute(left).scalar_one()) == 0

        await eventually(nothing_left, timeout)

    async def until(self, state: str, job_id: str = "j") -> JobSnapshot:
        """The job, once it is in this state."""

        async def there() -> JobSnapshot | None:
            job = await self.get(job_id)
            return job if job.state.value == state else None

        job = await eventually(there)
        assert job is not None
        return job

    async def lost_with_their_executor(self, count: int, *, queue: str = "default") -> None:
        """Start so many jobs in the name of an executor that has died, so that their leases have expired."""
        assert len((await self.jobs.claim(queue, limit=count)).started) == count
        job = self.jobs.tables.job
        expired = (
            update(job)
            .where(job.c.state == "running", job.c.queue == queue)
            .values(lease_expires_ticks=self.jobs.clock.ticks_after(-1))
        )
        await self.jobs.step(lambda connection: connection.execute(expired))

    async def all_put_off(self, count: int) -> bool:
        """Whether so many jobs are queued for later than they were submitted for."""
        rows = (await self.seen.rows())["jobs_job"]
        later = [row for row in rows if row["next_run_ticks"].ticks > row["created_ticks"].ticks]
        return len([row for row in later if row["state"] == "queued"]) == count

    async def running(self) -> list[AttemptReference]:
        """The attempts that run by what is stored."""
        rows = (await self.seen.rows())["jobs_attempt"]
        return [
            AttemptReference(row["scope_hash"], row["job_id"], row["ordinal"], row["token"])
            for row in rows
            if row["state"] == "running"
        ]

    async def until_attempt_ended(self, job_id: str = "j", *, ordinal: int = 1) -> None:
        """Wait until this attempt has ended, whatever becomes of the job."""

        async def ended() -> bool:
            return any(each.ordinal == ordinal and each.ended for each in await self.attempts(job_id))

        await eventually(ended)

    async def cancel(self, job_id: str = "j") -> None:
        await self.jobs.step(self.jobs.store.cancel, SCOPE, job_id)

    async def get(self, job_id: str = "j") -> JobSnapshot:
        return await self.seen.get(job_id)

    async def attempts(self, job_id: str = "j") -> list[AttemptRecord]:
        return list(await self.seen.step(self.seen.store.attempts, SCOPE, job_id))

    async def states(self, job_id: str = "j") -> tuple[str, list[str]]:
        """The state of a job and those of its attempts."""
        return await self.seen.states(job_id)

    async def ending(self, job_id: str = "j") -> tuple[str, str | None]:
        """The state of a job and its error code."""
        job = await self.get(job_id)
        return job.state.value, job.error_code

    async def ends(self) -> dict[str, End]:
        """How all jobs stand, by their ids; read at once."""
        rows = await self.seen.rows()
        attempts: dict[str, list[str]] = {row["job_id"]: [] for row in rows["jobs_job"]}
        for row in rows["jobs_attempt"]:
            attempts[row["job_id"]].append(row["state"])
        return {
            row["job_id"]: End(
                state=row["state"],
                code=row["error_code"],
                detail=row["error_detail"],
                result=row["result_reference"],
                attempts=attempts[row["job_id"]],
            )
            for row in rows["jobs_job"]
        }


class Gate:
    """What a handler waits at, and tells of: how often it was reached, and by whom at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.reached: list[str] = []
        self.inside = 0
        self.most_inside = 0

    async def pass_through(self, name: str = "") -> None:
        """Be seen here until the gate is open."""
        self.reached.append(name)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1

    async def until_reached(self, count: int = 1) -> None:
        """Wait until so many have come here."""
        await eventually(lambda: len(self.reached) >= count)


def codes(attempts: Collection[AttemptRecord]) -> list[tuple[str, str | None]]:
    """How each attempt ended, and its error code."""
    return [(attempt.state.value, attempt.error_code) for attempt in attempts]
