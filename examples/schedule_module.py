"""A module declares what is due when; the deployment may change when; the host turns slots into jobs.

python examples/schedule_module.py
"""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from jobs.schedule import (
    SCOPE,
    MisfirePolicy,
    ScheduleContext,
    ScheduleModule,
    ScheduleOptions,
    ScheduleOverrides,
    ScheduleResult,
    upcoming,
)
from relay import App, AppOptions, add_messaging_tables
from uow import Contracts, UtcInstant, prepare_sqlite

metadata = MetaData()
add_messaging_tables(metadata)
billing = ScheduleModule("Billing")
refreshed = asyncio.Event()


@billing.schedule(
    name="billing.settlement",
    cron="30 2 * * *",
    time_zone="Europe/Berlin",
    critical=True,
    misfire=MisfirePolicy.CATCH_UP,  # after a downtime every missed night is made up for, in order
    succeed_within=timedelta(days=2),
    description="settles the day with the bank",
)
async def settle(context: ScheduleContext) -> ScheduleResult:
    if context.attempt == 1:
        return ScheduleResult.failed("bank_closed", "the bank does not answer")  # expected, and no success
    return ScheduleResult.ok("settled")


@billing.schedule(name="billing.rates", interval=timedelta(hours=1))  # only the latest missed slot runs
async def refresh(context: ScheduleContext) -> None:
    if not refreshed.is_set():
        print(f"{context.name} runs because of its {context.cause}")
    refreshed.set()


async def tell(app: App) -> None:
    settlement = app.schedules.declared["billing.settlement"]
    assert settlement.trigger is not None
    spring = UtcInstant.from_datetime(datetime(2027, 3, 27, 12, tzinfo=UTC))
    for slot in upcoming(settlement.trigger, spring, 2):  # on the 28th there is no half past two in Berlin
        print("settlement is due", slot)

    await refreshed.wait()
    run = await app.schedules.trigger("billing.settlement", actor="ana", reason="month-end")
    await app.jobs.wait(SCOPE, run.job_id)
    await app.schedules.retry(run.run_id, actor="ana", reason="the bank is back")
    job = await app.jobs.wait(SCOPE, run.job_id)
    print(f"settlement by hand: {job.state} after {job.attempt_count} attempts, {job.result_reference}")

    await app.schedules.pause("billing.rates", actor="ana", reason="the provider is closed")
    for name in app.schedules.declared:
        done = [each for each in reversed(await app.schedules.actions(name)) if each.reason]
        print(f"{name}:", ", ".join(f"{each.kind} by {each.actor}, {each.reason}" for each in done))


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'billing.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        app = App(
            engine=engine,
            metadata=metadata,
            contracts=Contracts(),
            schedules=[billing],
            # From variables like SELFMANAGED_SCHEDULES__BILLING_RATES__INTERVAL=15m it would be
            # ScheduleOverrides(source="environment", variables=read_settings().schedules).
            schedule_overrides=[
                ScheduleOverrides(source="this test", values={"billing.rates": {"interval": "0.2"}})
            ],
            options=AppOptions(schedules=ScheduleOptions(tick_seconds=0.05)),
        )
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(app.run_jobs(stop))
            await tell(app)
            stop.set()
        await app.close()
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
