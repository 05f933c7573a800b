"""The hourly clean-up of what customers left behind; the demo does not wait an hour, but fires it by hand."""

from datetime import timedelta

from sqlalchemy import delete

from examples.orders.tables import basket
from jobs.schedule import ScheduleContext, ScheduleModule, ScheduleResult

cleaning = ScheduleModule("Orders")


@cleaning.schedule(name="orders.clean-up", interval=timedelta(hours=1), description="abandoned baskets")
async def remove_abandoned_baskets(context: ScheduleContext) -> ScheduleResult:
    async with context.unit_of_work() as unit:
        removed = await unit.session.execute(delete(basket).where(basket.c.abandoned == 1))
    return ScheduleResult.ok(f"{removed.rowcount} baskets removed")
