"""An App whose process hosts schedules and runs what they fire."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.declaring.result import ScheduleResult
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.storing.cause import Cause
from relay.app import App
from relay.schema import add_messaging_tables
from tests.support.apps import running
from tests.support.databases import create_tables
from tests.support.waiting import eventually
from uow.contracts import Contracts

OPTIONS = {
    "schedules": {"tick_seconds": 0.05, "beat_seconds": 0.05},
    "executor": {"poll_interval_seconds": 5, "stop_grace_seconds": 5},
}


class Shop:
    """An App with one schedule, and what its executor has seen."""

    def __init__(self, engine: AsyncEngine, **fields: Any) -> None:
        self.seen: list[ScheduleContext] = []
        self.module = ScheduleModule("files")

        @self.module.schedule(**{"name": "files.cleanup"} | fields)
        async def clean(context: ScheduleContext) -> ScheduleResult:
            self.seen.append(context)
            return ScheduleResult.ok("cleaned")

        metadata = MetaData()
        add_messaging_tables(metadata)
        self.app = App(
            engine=engine,
            metadata=metadata,
            contracts=Contracts(),
            schedules=[self.module],
            options=OPTIONS,
        )


async def shop_with(engine: AsyncEngine, **fields: Any) -> Shop:
    shop = Shop(engine, **fields)
    await create_tables(engine, shop.app.metadata)
    return shop


async def succeeded(app: App, count: int = 1) -> bool:
    runs = await app.schedules.runs("files.cleanup")
    return len([run for run in runs if run.outcome == "succeeded"]) >= count


@pytest.mark.parametrize("how", ["run_jobs", "run"])
async def test_a_process_fires_slots_and_runs_them_at_once(engine: AsyncEngine, how: str) -> None:
    shop = await shop_with(engine, interval=timedelta(seconds=0.2), critical=True)
    async with running(getattr(shop.app, how)):
        await eventually(lambda: succeeded(shop.app, 3), 20.0)
        assert await shop.app.release_problems() == []
        report = await shop.app.schedules.report()
    assert (report.problems, report.rows[0].problems, len(report.live_hosts)) == ((), (), 1)
    assert shop.seen[0].cause is Cause.SCHEDULE
    nominals = [context.nominal.ticks for context in shop.seen]
    steps = {later - earlier for earlier, later in pairwise(nominals)}  # longer where the machine is busy
    assert all(step > 0 and step % 2_000_000 == 0 for step in steps), steps
    assert (await shop.app.schedules.report()).live_hosts == ()
    await shop.app.close()


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_a_process_that_hosts_none_still_runs_what_others_fire(engine: AsyncEngine) -> None:
    shop = await shop_with(engine, interval=timedelta(seconds=0.05))

    async def execute_alone(stop: asyncio.Event) -> None:
        await shop.app.run_jobs(stop, schedules=False)

    async with running(execute_alone):
        await shop.app.schedules.trigger("files.cleanup", actor="ann", reason="test")
        await eventually(lambda: shop.seen, 20.0)
        assert (await shop.app.schedules.report()).hosts == ()
    assert [context.cause for context in shop.seen] == [Cause.MANUAL]
    await shop.app.close()


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_a_disabled_schedule_runs_when_it_is_asked_for(engine: AsyncEngine) -> None:
    shop = await shop_with(engine, enabled=False)
    async with running(shop.app.run_jobs):
        run = await shop.app.schedules.trigger("files.cleanup", actor="ann", reason="test")
        await eventually(lambda: succeeded(shop.app), 20.0)
    (settled,) = await shop.app.schedules.runs("files.cleanup")
    assert (settled.run_id, settled.detail) == (run.run_id, "cleaned")
    await shop.app.close()
