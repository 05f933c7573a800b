"""Apps whose schedules show what they did: each call in a file, each effect in the database."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs import job_tables
from jobs.schedule.declaring.catalog import ScheduleCatalog
from jobs.schedule.declaring.effective import declared_of
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.run_record import RunRecord
from jobs.schedule.storing.state import ScheduleState
from jobs.schedule.storing.store import ScheduleStore
from jobs.schedule.storing.table import schedule_tables
from jobs.store import JobStore
from relay.app import App
from relay.schema import add_messaging_tables
from tests.support.apps import running
from tests.support.executing import Calls
from tests.support.schedule_audit import StoredSchedules, audit_schedules, read_schedules
from tests.support.waiting import eventually
from uow.contracts import Contracts
from uow.sql.step import run_step
from uow.ticks import TICKS_PER_SECOND, UtcInstant

Declared = Mapping[str, Mapping[str, Any]]
"""The fields of declarations by name, all durations in seconds."""
Behaviour = Callable[[ScheduleContext], Awaitable[object]]

metadata = MetaData()
add_messaging_tables(metadata)
effect = Table(
    "effect",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("job_id", String(200), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("process", String(20), nullable=False),
)
"""What the executors of schedules write, in a unit of work of their own: a row for each attempt."""
tables = schedule_tables(metadata)
store = ScheduleStore(tables, JobStore(job_tables(metadata)))


async def at_once(context: ScheduleContext) -> None:
    """End as soon as the effect is committed."""


def schedule_module(
    declared: Declared, calls: Calls, process: str, behave: Behaviour = at_once
) -> ScheduleModule:
    """Schedules that note each call, write their effect, and then behave."""
    module = ScheduleModule("shop")

    async def execute(context: ScheduleContext) -> None:
        calls.note(context.job, process)
        async with context.unit_of_work() as unit:
            values = {"job_id": context.job.job_id, "attempt": context.attempt, "process": process}
            await unit.session.execute(insert(effect).values(**values))
        await behave(context)

    for name, fields in declared.items():
        module.schedule(name=name, **{field: _value(field, value) for field, value in fields.items()})(
            execute
        )
    return module


def scheduling_app(
    engine: AsyncEngine, module: ScheduleModule, *, lease_seconds: float = 3, **options: Any
) -> App:
    """An App that hosts these and runs their jobs, quick in both; `options` are those of its host."""
    quick = {"tick_seconds": 0.1, "take_over_seconds": 0.3, "beat_seconds": 0.5}
    return App(
        engine=engine,
        metadata=metadata,
        contracts=Contracts(),
        schedules=[module],
        options={
            "jobs": {"lease_seconds": lease_seconds},
            "executor": {"poll_interval_seconds": 0.1, "status_poll_seconds": 0.1, "stop_grace_seconds": 0.1},
            "schedules": quick | options,
        },
    )


class Scheduling:
    """A database with schedules, and hosts for them in this process."""

    def __init__(self, url: str, engine: AsyncEngine, calls: Calls) -> None:
        self.url = url
        self.engine = engine
        self.calls = calls
        self.declared: Declared = {}
        self.triggers: dict[str, Trigger] = {}
        self.first: dict[str, UtcInstant] = {}

    async def declare(self, *, ago: timedelta | None = None, **declared: Mapping[str, Any]) -> None:
        """Store them as a host does at its start; with `ago`, as if one had done so that long ago."""
        self.declared = declared
        catalog = ScheduleCatalog.compose([schedule_module(declared, self.calls, "nobody")])
        await run_step(
            self.engine,
            lambda c: store.reconcile(c, [declared_of(each) for each in catalog.values()], host="before"),
        )
        self.triggers = {name: each.trigger for name, each in catalog.items() if each.trigger is not None}
        if ago is not None:
            now = await self.now()
            then = UtcInstant(now.ticks - round(ago.total_seconds() * TICKS_PER_SECOND))
            for name, trigger in self.triggers.items():
                await self._change(name, next_fire_ticks=trigger.next_after(then))
        for state in await self.states():
            assert state.next_fire is not None
            self.first[state.name] = state.next_fire

    def app(
        self,
        process: str = "survivor",
        behave: Behaviour = at_once,
        *,
        engine: AsyncEngine | None = None,
        **options: Any,
    ) -> App:
        """An App with these schedules."""
        module = schedule_module(self.declared, self.calls, process, behave)
        return scheduling_app(engine or self.engine, module, **options)

    @contextlib.asynccontextmanager
    async def host(
        self, process: str = "survivor", behave: Behaviour = at_once, **options: Any
    ) -> AsyncIterator[App]:
        """A host and executor that works inside the block; stopped gracefully at its end."""
        app = self.app(process, behave, **options)
        async with running(app.run_jobs):
            yield app
        await app.close()

    async def over(self, *, timeout: float = 20.0) -> None:
        """Let no further slot come, and wait for hosts and executors to end all there is."""
        for name in self.declared:
            await self._change(name, next_fire_ticks=None)
        await eventually(self._nothing_left, timeout, interval=0.05)

    async def faults(self, *, halted: bool = True) -> list[str]:
        """What was lost, doubled, early or not recorded; empty when all is well. halted: after `over`."""
        return await run_step(self.engine, lambda connection: self.audit(connection, halted=halted))

    def audit(self, connection: Connection, *, halted: bool = True) -> list[str]:
        """See `faults`."""
        return audit_schedules(_read(connection), self.triggers, self.first, halted=halted)

    async def stored(self) -> StoredSchedules:
        """All rows."""
        return await run_step(self.engine, _read)

    async def runs(self, name: str) -> list[RunRecord]:
        """All runs of a schedule, that of the oldest slot first."""
        found = await run_step(self.engine, lambda c: store.runs(c, name, limit=100_000))
        return sorted(found, key=lambda run: run.nominal)

    async def succeeded(self, name: str) -> int:
        """How many of its runs have succeeded."""
        return sum(run.outcome == "succeeded" for run in await self.runs(name))

    async def states(self) -> list[ScheduleState]:
        """All schedules as they are stored."""
        return list(await run_step(self.engine, store.states))

    async def state(self, name: str) -> ScheduleState:
        """One schedule as it is stored."""
        return next(each for each in await self.states() if each.name == name)

    async def now(self) -> UtcInstant:
        """The present by the database."""
        return await run_step(self.engine, store.moment)

    async def _change(self, name: str, **values: Any) -> None:
        """Change a schedule past all hosts; what these have seen of it holds no more."""
        columns = tables.schedule.c
        changed = update(tables.schedule).where(columns.name == name)
        values |= {"fencing_number": columns.fencing_number + 1}
        await run_step(self.engine, lambda c: c.execute(changed.values(values)))

    async def _nothing_left(self) -> bool:
        waiting = select(tables.schedule.c.name).where(tables.schedule.c.waiting_nominal_ticks.is_not(None))
        is_open = select(tables.run.c.run_id).where(tables.run.c.open_name.is_not(None))
        return await run_step(
            self.engine, lambda c: c.execute(waiting).first() is None and c.execute(is_open).first() is None
        )


def _value(field: str, value: Any) -> Any:
    durations = {"interval", "misfire_grace", "catch_up_age", "jitter", "succeed_within"}
    return timedelta(seconds=value) if field in durations else value


def _read(connection: Connection) -> StoredSchedules:
    return read_schedules(connection, tables, job_tables(metadata), effect)
