"""Long work for many tenants: bounded batches, each committed with its cursor; one that fails stops no other.

python examples/schedule_tenants.py
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select
from sqlalchemy.ext.asyncio import create_async_engine

from jobs.schedule import (
    Batch,
    ScheduleContext,
    ScheduleModule,
    ScheduleResult,
    TenantScope,
    for_each_tenant,
    run_batches,
)
from relay import App, add_messaging_tables
from uow import Contracts, SelfManagedUnitOfWork, prepare_sqlite

metadata = MetaData()
visit = Table("visit", metadata, Column("id", Integer, primary_key=True), Column("tenant", String(9)))
counted = Table("counted", metadata, Column("visit_id", Integer, primary_key=True))
add_messaging_tables(metadata)
statistics = ScheduleModule("Statistics")
broken = {"bakery"}


@statistics.schedule(name="statistics.count", cron="0 4 * * *")
async def count_visits(context: ScheduleContext) -> ScheduleResult:
    report = await for_each_tenant(["airline", "bakery", "cinema"], count_for)
    if report.failed:
        return ScheduleResult.failed("tenants_failed", ", ".join(report.failed))
    return ScheduleResult.ok()


async def count_for(scope: TenantScope) -> None:
    async def read(position: int | None, size: int) -> Batch[int]:
        query = select(visit.c.id).where(visit.c.tenant == scope.tenant, visit.c.id > (position or 0))
        async with app.engine.connect() as connection:
            ids = (await connection.scalars(query.order_by(visit.c.id).limit(size))).all()
        return Batch.of(ids, position=lambda last: last)

    async def apply(ids: Sequence[int], unit: SelfManagedUnitOfWork) -> None:
        if scope.tenant in broken and ids[-1] > 500:
            raise ConnectionError("the bakery's till does not answer")
        # Twice would violate the primary key: it never comes to that.
        await unit.session.execute(insert(counted), [{"visit_id": number} for number in ids])

    cursor = app.cursor("statistics.count")  # the tenant's own
    done = await run_batches(read, apply, cursor, unit_of_work=app.unit_of_work, size=100)
    print(f"{scope.tenant}: {done.items} visits in {done.batches} batches, now at {done.position}")


async def count_all() -> int:
    async with app.engine.connect() as connection:
        return await connection.scalar(select(func.count()).select_from(counted)) or 0


async def tell() -> None:
    async with app.engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        tenants = ("airline", "bakery", "cinema")
        rows = [{"id": number, "tenant": tenants[number % 3]} for number in range(1, 901)]
        await connection.execute(insert(visit), rows)
    report = await for_each_tenant(["airline", "bakery", "cinema"], count_for)
    print("failed:", ", ".join(report.failed), "-", await count_all(), "of 900 are counted")
    broken.clear()  # the till is back: the one that failed runs alone, and goes on where it was
    await for_each_tenant(["airline", "bakery", "cinema"], count_for, only=["bakery"])
    print("counted:", await count_all())


async def main() -> None:
    await tell()
    await app.close()
    await app.engine.dispose()


directory = tempfile.TemporaryDirectory()
engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory.name) / 'statistics.db'}")
prepare_sqlite(engine)
app = App(engine=engine, metadata=metadata, contracts=Contracts(), schedules=[statistics])

if __name__ == "__main__":
    with directory:
        asyncio.run(main())
