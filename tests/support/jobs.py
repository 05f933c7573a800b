"""Stored jobs on a real database with a clock that tests move."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, MetaData, RowMapping, delete, select
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs import (
    AttemptReference,
    Fenced,
    JobKey,
    JobOptions,
    JobSnapshot,
    JobStore,
    JobSubmission,
    Settled,
    Settlement,
    StartedJob,
    StartReport,
    Submitted,
    add_job_tables,
    scope_hash,
)
from tests.support.databases import create_tables
from uow.sql.clock import OperationalClock, PinnedClock
from uow.sql.step import run_step
from uow.ticks import UtcInstant

START = datetime(2026, 1, 1, tzinfo=UTC)
START_TICKS = UtcInstant.from_datetime(START).ticks
SCOPE = "tenant-1"
SEVERAL_WRITERS = ("postgresql", "mariadb")
"""Kinds of databases on which two transactions write at once; SQLite makes the second wait to begin."""

P = ParamSpec("P")
T = TypeVar("T")


def submission(job_id: str = "j", **fields: Any) -> JobSubmission:
    """A request for one job."""
    return JobSubmission.create(
        **{"scope": SCOPE, "job_id": job_id, "handler": "invoices.render"} | fields  # type: ignore[arg-type]
    )


def submissions(count: int, *, prefix: str = "j", **fields: Any) -> list[JobSubmission]:
    return [submission(f"{prefix}{number:05d}", **fields) for number in range(count)]


def key(job_id: str = "j", scope: str = SCOPE) -> JobKey:
    return JobKey(scope_hash(scope), job_id)


def at(seconds: float) -> UtcInstant:
    """The moment so many seconds after the start of the tests' clock."""
    return UtcInstant(START_TICKS + round(seconds * 10_000_000))


@dataclass
class StoredJobs:
    """A store with an engine of its own, each call one committed step."""

    engine: AsyncEngine
    options: JobOptions = field(default_factory=JobOptions)
    clock: OperationalClock = field(default_factory=lambda: PinnedClock(START))
    metadata: MetaData = field(default_factory=MetaData)

    def __post_init__(self) -> None:
        self.tables = add_job_tables(self.metadata)
        self.store = JobStore(self.tables, options=self.options, clock=self.clock)

    async def create(self) -> "StoredJobs":
        await create_tables(self.engine, self.metadata)
        return self

    async def clear(self) -> None:
        """Delete everything that is stored."""

        def delete_all(connection: Connection) -> None:
            for table in (self.tables.attempt, self.tables.job):
                connection.execute(delete(table))

        await self.step(delete_all)

    def advance(self, seconds: float) -> None:
        assert isinstance(self.clock, PinnedClock)
        self.clock.advance(seconds)

    async def step(self, verb: Callable[Concatenate[Connection, P], T], *args: P.args, **rest: P.kwargs) -> T:
        return await run_step(self.engine, lambda connection: verb(connection, *args, **rest))

    async def submit(self, *requests: JobSubmission) -> Sequence[Submitted]:
        return await self.step(self.store.submit_many, requests)

    async def start(self, job_id: str = "j") -> StartedJob:
        """The started job, which must be startable."""
        started = await self.step(self.store.try_start, key(job_id), owner="executor-1")
        assert not isinstance(started, Fenced)
        return started

    async def submitted_and_started(self, job_id: str = "j", **fields: Any) -> AttemptReference:
        await self.submit(submission(job_id, **fields))
        return (await self.start(job_id)).reference

    async def claim(
        self, *queues: str, limit: int = 100, handlers: Collection[tuple[str, int]] | None = None
    ) -> StartReport:
        return await self.step(
            self.store.start_many, queues or ["default"], limit=limit, owner="executor-1", handlers=handlers
        )

    async def settle(self, *settlements: Settlement) -> Sequence[Settled]:
        return await self.step(self.store.settle_many, settlements)

    async def get(self, job_id: str = "j", scope: str = SCOPE) -> JobSnapshot:
        return await self.step(self.store.get, scope, job_id)

    async def states(self, job_id: str = "j") -> tuple[str, list[str]]:
        """The state of a job and those of its attempts."""
        attempts = await self.step(self.store.attempts, SCOPE, job_id)
        return (await self.get(job_id)).state.value, [attempt.state.value for attempt in attempts]

    async def rows(self) -> dict[str, Sequence[RowMapping]]:
        """Everything that is stored."""

        def read(connection: Connection) -> dict[str, Sequence[RowMapping]]:
            return {
                table.name: connection.execute(select(table).order_by(*table.primary_key)).mappings().all()
                for table in (self.tables.job, self.tables.attempt)
            }

        return await self.step(read)


def ids(report: StartReport) -> list[str]:
    return [job.reference.job_id for job in report.started]
