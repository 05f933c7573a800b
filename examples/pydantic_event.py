"""An event may be a pydantic model: declare `id` and `occurred_at`, and pydantic validates on both sides.

pip install 'selfmanaged[pydantic]'
python examples/pydantic_event.py
"""

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from uuid_utils.compat import uuid7

from inbox import Consumer, HandlerContext
from relay import App, add_messaging_tables
from uow import Contracts, UtcInstant, prepare_sqlite

metadata = MetaData()
contracts = Contracts()
billing = Consumer("billing")
add_messaging_tables(metadata)
billed = asyncio.Event()


class Line(BaseModel):
    sku: str
    price: Annotated[Decimal, Field(gt=0)]


@contracts.event("shop.order-placed", version=1)
class OrderPlaced(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: UUID = Field(default_factory=uuid7)
    occurred_at: UtcInstant = Field(default_factory=UtcInstant.now)
    lines: tuple[Line, ...]


@billing.handles(OrderPlaced)
async def bill(event: OrderPlaced, context: HandlerContext) -> None:
    print(f"billed {sum(line.price for line in event.lines)} for {len(event.lines)} lines")
    billed.set()


async def tell(app: App) -> None:
    try:
        Line(sku="book", price=Decimal(0))
    except ValidationError as error:
        print("a wrong event is refused where it is made:", error.errors()[0]["type"])
    book, pen = Line(sku="book", price=Decimal("19.90")), Line(sku="pen", price=Decimal("2.10"))
    async with app.unit_of_work() as unit:
        unit.enqueue(OrderPlaced(lines=(book, pen)))
    stop = asyncio.Event()
    running = asyncio.create_task(app.run(stop))
    await billed.wait()
    stop.set()
    await running


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'shop.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await tell(App(engine=engine, metadata=metadata, contracts=contracts, consumers=[billing]))
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
