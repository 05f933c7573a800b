"""Stored schedules on a clock that tests move, with hosts that look only when a test tells them to."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Connection, MetaData, delete, insert, update
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.options import JobOptions
from jobs.schedule.declaring.catalog import EffectiveSchedule, ScheduleCatalog
from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.declaring.override import ScheduleOverrides
from jobs.schedule.hosting.client import Schedules
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.hosting.host import ScheduleHost
from jobs.schedule.hosting.options import ScheduleOptions
from jobs.schedule.storing.action import RecordedAction
from jobs.schedule.storing.ground import SCOPE
from jobs.schedule.storing.run_record import RunRecord
from jobs.schedule.storing.state import ScheduleState
from jobs.schedule.storing.store import ScheduleStore
from jobs.schedule.storing.table import schedule_tables
from jobs.settlement import Settlement
from jobs.snapshot import JobSnapshot
from jobs.table import job_tables
from relay.schema import add_messaging_tables
from tests.support.jobs import START, START_TICKS, StoredJobs
from uow.sql.clock import OperationalClock, PinnedClock
from uow.sql.dialect import database_of
from uow.sql.lease import LeaseStore, lease_table
from uow.sql.step import run_step
from uow.ticks import UtcInstant

metadata = MetaData()
add_messaging_tables(metadata)

MINUTELY = "* * * * *"
NAME = "files.cleanup"
MakeEngine = Callable[[], Awaitable[AsyncEngine]]
"""Makes another engine of the same database."""


def at(seconds: float) -> UtcInstant:
    """The moment so many seconds after the start of the tests' clock, which is midnight."""
    return UtcInstant(START_TICKS + round(seconds * 10_000_000))


def schedule(name: str = NAME, **fields: Any) -> ScheduleDeclaration:
    """A declaration, of every minute unless told otherwise."""
    timing = {} if {"cron", "interval"} & fields.keys() else {"cron": MINUTELY}
    return ScheduleDeclaration(**{"name": name, "module": "files"} | timing | fields)


async def at_once(context: ScheduleContext) -> None:
    """Work that is done."""


def catalog_of(
    *declarations: ScheduleDeclaration, overrides: Sequence[ScheduleOverrides] = (), work: Any = at_once
) -> ScheduleCatalog:
    """The schedules in force of one module that declares these; `work` is the executor of all of them."""
    modules = {each.module: ScheduleModule(each.module) for each in declarations}
    for each in declarations:
        modules[each.module].declare(each)
        modules[each.module].execute(each.name, work)
    return ScheduleCatalog.compose(modules.values(), overrides, now=at(0))


@dataclass
class StoredSchedules:
    """Stored schedules and their jobs; hosts and clients on them. `clock` decides what is due."""

    engine: AsyncEngine
    clock: OperationalClock = field(default_factory=lambda: PinnedClock(START))
    options: JobOptions = field(default_factory=lambda: JobOptions(lease_seconds=3600))

    def __post_init__(self) -> None:
        self.tables = schedule_tables(metadata)
        self.jobs = StoredJobs(self.engine, self.options, self.clock, metadata)
        self.store = ScheduleStore(self.tables, self.jobs.store)
        self.leases = LeaseStore(lease_table(metadata), clock=self.clock)
        self.woken = 0

    async def clear(self) -> None:
        """Delete everything that is stored."""

        def delete_all(connection: Connection) -> None:
            for table in metadata.sorted_tables:
                connection.execute(delete(table))

        await self.step(delete_all)

    def advance(self, seconds: float) -> None:
        self.jobs.advance(seconds)

    async def step(self, verb: Callable[..., Any], *args: Any, **rest: Any) -> Any:
        return await run_step(self.engine, lambda connection: verb(connection, *args, **rest))

    def host(
        self,
        *declared: ScheduleDeclaration | Mapping[str, EffectiveSchedule],
        owner: str = "host-1",
        engine: AsyncEngine | None = None,
        own_clock: Callable[[], UtcInstant] | None = None,
        **options: Any,
    ) -> ScheduleHost:
        """A host of these that has done nothing yet, and tells of itself at each tick.

        `options` are those of ScheduleOptions.
        """
        return ScheduleHost(
            engine or self.engine,
            self.store,
            _in_force(declared),
            leases=self.leases,
            committed=self.wake,
            options=ScheduleOptions(**{"beat_seconds": 0.0001} | options),
            owner=owner,
            own_clock=own_clock or self.now,
        )

    async def hosted(self, *declared: ScheduleDeclaration, **options: Any) -> ScheduleHost:
        """The same, reconciled."""
        host = self.host(*declared, **options)
        await host.reconcile()
        return host

    def client(self, *declared: ScheduleDeclaration | Mapping[str, EffectiveSchedule]) -> Schedules:
        """What operators of an App with these use."""
        return Schedules(
            self.engine, self.store, _in_force(declared), leases=self.leases, committed=self.wake
        )

    def wake(self) -> None:
        self.woken += 1

    def now(self) -> UtcInstant:
        """The present by the pinned clock, or else by ours."""
        clock = self.clock
        return UtcInstant.from_datetime(clock.moment) if isinstance(clock, PinnedClock) else UtcInstant.now()

    async def state(self, name: str = NAME) -> ScheduleState:
        """How a schedule is stored; it must be."""
        (state,) = [each for each in await self.step(self.store.states) if each.name == name]
        return state

    async def runs(self, name: str = NAME, *, limit: int = 1000) -> list[RunRecord]:
        """Its runs in the order of their slots."""
        runs = await self.step(self.store.runs, name, limit=limit)
        return sorted(runs, key=lambda run: run.nominal)

    async def slots(self, name: str = NAME) -> list[float]:
        """The slots that became runs, in seconds after the start of the clock, in their order."""
        return [seconds_of(run.nominal) for run in await self.runs(name)]

    async def actions(self, name: str | None = NAME) -> list[RecordedAction]:
        """What was done to it, in that order."""
        return list(reversed(await self.step(self.store.actions, name, limit=1000)))

    async def told(self, name: str = NAME) -> list[str]:
        """The kinds of that, without its declaration."""
        return [each.kind.value for each in await self.actions(name) if each.kind != "declared"]

    async def job(self, run: RunRecord) -> JobSnapshot:
        """The job of a run."""
        return await self.jobs.get(run.job_id, SCOPE)

    async def start_due(self) -> list[str]:
        """An executor takes every due job; their ids."""
        report = await self.jobs.claim(limit=1000)
        self._taken = [each.reference for each in report.started]
        return [each.job_id for each in self._taken]

    async def finish(self, error_code: str | None = None) -> list[str]:
        """An executor takes every due job and ends it, with success unless there is a code; their ids."""
        ids = await self.start_due()
        await self.end(error_code)
        return ids

    async def end(self, error_code: str | None = None) -> None:
        """The jobs that were taken last end, with success unless there is a code."""
        if error_code is None:
            ends = [Settlement.succeed(reference) for reference in self._taken]
        else:
            ends = [Settlement.fail(reference, error_code=error_code) for reference in self._taken]
        await self.jobs.settle(*ends)

    async def expire_leases(self) -> None:
        """The leases of all jobs that run have expired: their executors are dead."""
        job = job_tables(metadata).job
        ago = {"lease_expires_ticks": self.clock.ticks_after(-1)}
        expired = update(job).where(job.c.state == "running").values(ago)
        await self.step(lambda connection: connection.execute(expired))

    async def forget_jobs(self) -> None:
        """Delete all jobs, as retention does to those that have ended."""
        tables = job_tables(metadata)

        def delete_jobs(connection: Connection) -> None:
            connection.execute(delete(tables.attempt))
            connection.execute(delete(tables.job))

        await self.step(delete_jobs)

    async def fill(self, count: int, *, due: Collection[int] = (), waiting: Collection[int] = ()) -> None:
        """So many schedules `crowd.00000` whose slot comes in an hour, or came at the start of the clock."""
        rows = [
            _row(f"crowd.{number:05d}", due=number in due, waiting=number in waiting)
            for number in range(count)
        ]

        def store(connection: Connection) -> None:
            for first in range(0, count, 500):
                connection.execute(insert(self.tables.schedule), rows[first : first + 500])

        await self.step(store)

    async def change(self, name: str = NAME, **values: Any) -> None:
        """Write into the row of a schedule behind everybody's back."""
        table = self.tables.schedule
        statement = update(table).where(table.c.name == name).values(**values)
        await self.step(lambda connection: connection.execute(statement))

    async def change_all(self, **values: Any) -> None:
        """Write into the rows of all schedules."""
        statement = update(self.tables.schedule).values(**values)
        await self.step(lambda connection: connection.execute(statement))


@cache
def crowd(count: int, **fields: Any) -> ScheduleCatalog:
    """The schedules that `StoredSchedules.fill` stores."""
    return catalog_of(*(schedule(f"crowd.{number:05d}", **fields) for number in range(count)))


def at_read_committed(engine: AsyncEngine) -> AsyncEngine:
    """The engine as the steps of stores use it."""
    isolation = database_of(engine).claim_isolation
    return engine if isolation is None else engine.execution_options(isolation_level=isolation)


def seconds_of(instant: UtcInstant) -> float:
    """How long after the start of the clock."""
    return (instant.ticks - START_TICKS) / 10_000_000


def _in_force(
    declared: Sequence[ScheduleDeclaration | Mapping[str, EffectiveSchedule]],
) -> Mapping[str, EffectiveSchedule]:
    match declared:
        case [Mapping() as schedules]:
            return schedules
        case _:
            return catalog_of(*declared)  # type: ignore[arg-type]


def _row(name: str, *, due: bool, waiting: bool) -> dict[str, Any]:
    return {
        "name": name,
        "module": "files",
        "trigger_text": TRIGGER_TEXT,
        "declared": 1,
        "enabled": 1,
        "critical": 0,
        "paused": 0,
        "next_fire_ticks": at(0) if due else at(3600),
        "waiting_nominal_ticks": at(0) if waiting else None,
        "fencing_number": 1,
        "fired_count": 0,
        "misfired_count": 0,
        "overlapped_count": 0,
        "changed_ticks": at(0),
    }


TRIGGER_TEXT = catalog_of(schedule())[NAME].trigger.describe()  # type: ignore[union-attr]
"""What is stored of the trigger of a schedule of every minute."""
