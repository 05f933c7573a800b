"""Apps whose handlers of jobs show what they did: each call in a file, each booking in the database."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs import JobContext, JobRegistry, JobSnapshot, JobState, JobSubmission, ThreadJobContext, job_tables
from outbox.table import outbox_table
from relay.app import App
from relay.schema import add_messaging_tables
from tests.support.apps import running
from tests.support.job_audit import StoredRows, audit_effects, audit_jobs, read_jobs
from tests.support.waiting import eventually
from uow.contracts import Contracts
from uow.event import Event
from uow.sql.step import run_step
from uow.unit import SelfManagedUnitOfWork

SCOPE = "shop"
MAIL, BOOK, CHARGE, REPORT = "mail.send", "ledger.book", "card.charge", "report.build"
"""A plain handler, a transactional one, one that must not run twice, and one in a thread."""

metadata = MetaData()
add_messaging_tables(metadata)
booking = Table(
    "booking",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("job_id", String(100), nullable=False),
    Column("process", String(20), nullable=False),
)
"""What the transactional handler writes: one row for each time it was committed."""
contracts = Contracts()


@contracts.event("ledger.booked", version=1)
@dataclass(frozen=True, kw_only=True)
class Booked(Event):
    job_id: str


Behaviour = Callable[[JobContext], Awaitable[object]]


async def at_once(context: JobContext) -> None:
    """Work as a handler should."""


@dataclass(frozen=True)
class Call:
    """A handler was called."""

    handler: str
    version: int
    job_id: str
    attempt: int
    process: str


class Calls:
    """What was called, kept in a file whatever becomes of the process."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def note(self, context: JobContext | ThreadJobContext, process: str) -> None:
        """One call more."""
        name, version = context.handler
        with self.file.open("a") as lines:
            lines.write(f"{name} {version} {context.job_id} {context.attempt} {process}\n")

    def read(self) -> list[Call]:
        """All calls in their order."""
        if not self.file.exists():
            return []
        return [_call(*line.split()) for line in self.file.read_text().splitlines()]

    def of(self, job_id: str) -> list[tuple[int, str]]:
        """Attempt and process of each call for this job."""
        return [(call.attempt, call.process) for call in self.read() if call.job_id == job_id]


def _call(handler: str, version: str, job_id: str, attempt: str, process: str) -> Call:
    return Call(handler, int(version), job_id, int(attempt), process)


def executing_registry(
    calls: Calls, process: str, behave: Behaviour = at_once, *, versions: Collection[int] = (1,)
) -> JobRegistry:
    """The four handlers in each of these versions; `behave` says how those on the event loop go on."""
    registry = JobRegistry()

    async def plain(context: JobContext) -> str:
        calls.note(context, process)
        await behave(context)
        return process

    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
        calls.note(context, process)
        await unit.session.execute(insert(booking).values(job_id=context.job_id, process=process))
        unit.enqueue(Booked(job_id=context.job_id))
        await behave(context)
        return process

    def report(context: ThreadJobContext) -> str:
        calls.note(context, process)
        context.wait(context.arguments.get("seconds", 0))
        context.raise_if_stopped()
        return process

    for version in versions:
        registry.handler(MAIL, version=version)(plain)
        registry.handler(CHARGE, version=version, requeue_interrupted=False)(plain)
        registry.handler(BOOK, version=version, transactional=True)(book)
        registry.handler(REPORT, version=version)(report)
    return registry


def executing_app(
    engine: AsyncEngine, registry: JobRegistry, *, lease_seconds: float = 3, **options: Any
) -> App:
    """An App with these handlers and quick polling; `options` are those of its executor."""
    quick = {"poll_interval_seconds": 0.1, "status_poll_seconds": 0.1, "stop_grace_seconds": 5.0}
    return App(
        engine=engine,
        metadata=metadata,
        contracts=contracts,
        jobs=[registry],
        options={"jobs": {"lease_seconds": lease_seconds}, "executor": quick | options},
    )


def job(handler: str, job_id: str | None = None, *, version: int = 1, **fields: Any) -> JobSubmission:
    """A request for one job; its id is the name of the handler unless another is given."""
    given: dict[str, Any] = {"arguments": {}} | fields
    return JobSubmission.create(
        scope=SCOPE, job_id=job_id or handler, handler=handler, version=version, **given
    )


class Executing:
    """A database with jobs, and executors for them in this process."""

    def __init__(self, url: str, engine: AsyncEngine, calls: Calls) -> None:
        self.url = url
        self.engine = engine
        self.calls = calls
        self.client = executing_app(engine, JobRegistry()).jobs

    @contextlib.asynccontextmanager
    async def executor(
        self,
        process: str = "survivor",
        behave: Behaviour = at_once,
        *,
        engine: AsyncEngine | None = None,
        versions: Collection[int] = (1,),
        **options: Any,
    ) -> AsyncIterator[asyncio.Event]:
        """An executor that works inside the block; stopped gracefully at its end, or by the given event."""
        registry = executing_registry(self.calls, process, behave, versions=versions)
        app = executing_app(engine or self.engine, registry, **options)
        async with running(app.run_jobs) as stop:
            yield stop
        await app.close()

    async def submit(self, *jobs: JobSubmission) -> None:
        """Queue these."""
        await self.client.submit_many(jobs)

    async def get(self, job_id: str) -> JobSnapshot:
        """The job as it stands."""
        return await self.client.get(SCOPE, job_id)

    async def states(self, job_id: str) -> tuple[str, list[str]]:
        """The state of a job and those of its attempts."""
        attempts = await self.client.attempts(SCOPE, job_id)
        return (await self.get(job_id)).state.value, [attempt.state.value for attempt in attempts]

    async def all_in(self, *states: JobState) -> bool:
        """Whether every job is in one of these."""
        query = select(job_tables(metadata).job.c.state).distinct()
        return set(await run_step(self.engine, lambda c: c.execute(query).scalars().all())) <= set(states)

    async def until(self, *states: JobState, timeout: float = 10.0) -> None:
        """Wait until every job is in one of these."""
        await eventually(lambda: self.all_in(*states), timeout, interval=0.05)

    async def stored(self) -> StoredRows:
        """All rows of jobs and attempts."""
        return await run_step(self.engine, lambda c: read_jobs(c, job_tables(metadata)))

    async def faults(self, *, at_rest: bool = True) -> list[str]:
        """What does not agree in the tables, or was not done exactly once; empty when all is well."""
        return await run_step(self.engine, lambda connection: audit(connection, at_rest=at_rest))

    async def bookings(self) -> Counter[str]:
        """How many rows the transactional handler has committed for each job."""
        return await run_step(self.engine, count_bookings)

    async def events(self) -> Counter[str]:
        """How many events it has enqueued for each job."""
        return await run_step(self.engine, count_events)


def audit(connection: Connection, *, at_rest: bool = True) -> list[str]:
    """See Executing.faults."""
    stored = read_jobs(connection, job_tables(metadata))
    effects = {"bookings": count_bookings(connection), "events": count_events(connection)}
    return audit_jobs(stored, at_rest=at_rest) + audit_effects(stored, {BOOK}, effects)


def count_bookings(connection: Connection) -> Counter[str]:
    """See Executing.bookings."""
    return Counter(connection.execute(select(booking.c.job_id)).scalars().all())


def count_events(connection: Connection) -> Counter[str]:
    """See Executing.events."""
    texts = connection.execute(select(outbox_table(metadata).c.payload)).scalars().all()
    return Counter(json.loads(text)["job_id"] for text in texts)
