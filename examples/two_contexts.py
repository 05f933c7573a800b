"""Two business contexts in one process: each has its own database, tables, contracts and commits.

python examples/two_contexts.py
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from outbox import outbox_table
from relay import App, add_messaging_tables
from uow import Contracts, Event, FixTheCodeError, prepare_sqlite

sales_metadata, stock_metadata = MetaData(), MetaData()
sales_contracts, stock_contracts = Contracts(), Contracts()
sale = Table("sale", sales_metadata, Column("number", Integer, primary_key=True))
item = Table("item", stock_metadata, Column("name", String(50), primary_key=True), Column("count", Integer))
add_messaging_tables(sales_metadata)
add_messaging_tables(stock_metadata)


@sales_contracts.event("sales.sold", version=1)
@dataclass(frozen=True, kw_only=True)
class Sold(Event):
    number: int


@stock_contracts.event("stock.counted", version=1)
@dataclass(frozen=True, kw_only=True)
class Counted(Event):
    name: str


async def make_app(file: Path, metadata: MetaData, contracts: Contracts) -> App:
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    prepare_sqlite(engine)
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    return App(engine=engine, metadata=metadata, contracts=contracts)


async def tell(sales: App, stock: App) -> None:
    # Both units are open at the same time; each commits its own database.
    async with sales.unit_of_work() as sales_unit:
        await sales_unit.session.execute(insert(sale).values(number=1))
        sales_unit.enqueue(Sold(number=1))
        async with stock.unit_of_work() as stock_unit:
            await stock_unit.session.execute(insert(item).values(name="book", count=9))
            stock_unit.enqueue(Counted(name="book"))
    print("both commit:", await count(sales), "|", await count(stock))

    try:
        async with sales.unit_of_work() as sales_unit:
            sales_unit.enqueue(Sold(number=2))
            async with stock.unit_of_work() as stock_unit:
                stock_unit.enqueue(Counted(name="pen"))
            await sales_unit.session.execute(insert(sale).values(number=1))
    except IntegrityError:
        print("the sale fails after the stock is committed:", await count(sales), "|", await count(stock))

    try:
        async with sales.unit_of_work() as sales_unit:
            sales_unit.enqueue(Counted(name="pen"))
    except FixTheCodeError as error:
        print("an event of the other context is refused:", type(error).__name__)


async def count(app: App) -> str:
    table = outbox_table(app.metadata)
    async with app.unit_of_work() as unit:
        names = select(table.c.contract_name, func.count()).group_by(table.c.contract_name)
        counted = (await unit.session.execute(names)).all()
    return ", ".join(f"{number} x {name}" for name, number in counted)


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        sales = await make_app(Path(directory) / "sales.db", sales_metadata, sales_contracts)
        stock = await make_app(Path(directory) / "stock.db", stock_metadata, stock_contracts)
        await tell(sales, stock)
        await sales.engine.dispose()
        await stock.engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
