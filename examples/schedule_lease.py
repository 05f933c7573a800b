"""A lease lets one at a time do a piece of work, however it was started, and fences the one that lost it.

python examples/schedule_lease.py
"""

import asyncio
import tempfile
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, insert
from sqlalchemy.ext.asyncio import create_async_engine

from jobs.schedule import HeldLease, LeaseHeldError, LeaseLostError
from relay import App, add_messaging_tables
from uow import Contracts, prepare_sqlite

metadata = MetaData()
booking = Table("booking", metadata, Column("id", Integer, primary_key=True), Column("text", String(99)))
add_messaging_tables(metadata)


async def close_the_month(app: App, who: str, begun: asyncio.Event, may_end: asyncio.Event) -> None:
    """The manual entry: a schedule or a consumer would do the same under the same name."""
    try:
        async with app.leases.hold("books.close-month", seconds=30) as held:
            begun.set()
            await may_end.wait()
            await book(app, held, f"closed by {who}")
            print(f"{who} has closed the month")
    except LeaseHeldError:
        print(f"{who} is told that someone else is closing the month")


async def book(app: App, held: HeldLease, text: str) -> None:
    async with app.unit_of_work() as unit:
        await held.guard(unit)  # refused, and all rolled back, should the lease be another's by now
        await unit.session.execute(insert(booking).values(text=text))


async def tell(app: App) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(close_the_month(app, "Ana", begun, may_end))
        await begun.wait()
        await close_the_month(app, "Ben", asyncio.Event(), may_end)
        may_end.set()

    async with app.leases.hold("books.close-month", seconds=30) as first:
        pass  # it has ended, but its work lingers somewhere
    async with app.leases.hold("books.close-month", seconds=30) as second:
        print("the token only grows:", second.token > first.token)
        try:
            await book(app, first, "late")
        except LeaseLostError:
            print("what comes late is refused")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'books.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        app = App(engine=engine, metadata=metadata, contracts=Contracts())
        await tell(app)
        await app.close()
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
