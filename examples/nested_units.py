"""Nested units join the outermost one; whatever fails inside makes all of it undone.

python examples/nested_units.py
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select
from sqlalchemy.ext.asyncio import create_async_engine

from outbox import outbox_table
from relay import App, add_messaging_tables
from uow import Contracts, Event, RollbackOnlyError, SelfManagedUnitOfWork, prepare_sqlite

metadata = MetaData()
contracts = Contracts()
account = Table("account", metadata, Column("name", String(50), primary_key=True), Column("balance", Integer))
add_messaging_tables(metadata)


@contracts.event("bank.account-opened", version=1)
@dataclass(frozen=True, kw_only=True)
class AccountOpened(Event):
    name: str


async def open_account(unit: SelfManagedUnitOfWork, name: str) -> None:
    """Usable alone and inside a larger operation: the block joins a unit that is already open."""
    async with unit:
        if not name:
            raise ValueError("an account needs a name")
        await unit.session.execute(insert(account).values(name=name, balance=0))
        unit.enqueue(AccountOpened(name=name))


async def tell(app: App) -> None:
    unit = app.unit_of_work()
    async with unit:
        await open_account(unit, "savings")
        await open_account(unit, "current")
    print("one commit for two nested blocks:", await count(app))

    unit = app.unit_of_work()
    try:
        async with unit:
            await open_account(unit, "holidays")
            try:
                await open_account(unit, "")
            except ValueError:
                print("the caller hides the failure of the second account ...")
    except RollbackOnlyError as error:
        print("... but half an operation is never kept:", error.__cause__)
    print("still:", await count(app))


async def count(app: App) -> str:
    async with app.unit_of_work() as unit:
        accounts = await unit.session.scalar(select(func.count()).select_from(account))
        events = await unit.session.scalar(select(func.count()).select_from(outbox_table(metadata)))
    return f"{accounts} accounts, {events} events"


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'bank.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await tell(App(engine=engine, metadata=metadata, contracts=contracts))
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
