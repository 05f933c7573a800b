"""An operation may be repeated safely when its events keep their identity.

A client that got no answer does not know whether its order was stored. It sends the same request again; the
identity of the event comes from the request, so the second attempt adds nothing.

    python examples/retry_with_stable_identity.py
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy import MetaData, func, select
from sqlalchemy.ext.asyncio import create_async_engine

from outbox import EventConflictError, outbox_table
from relay import App, add_messaging_tables
from uow import Contracts, Event, UtcInstant, prepare_sqlite

metadata = MetaData()
contracts = Contracts()
add_messaging_tables(metadata)


@contracts.event("shop.order-placed", version=1)
@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    item: str


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the client sends, with the key and the time that it chose for this request once."""

    key: UUID
    sent_at: UtcInstant
    item: str


async def place_order(app: App, request: Request) -> None:
    async with app.unit_of_work() as unit:
        unit.enqueue(OrderPlaced(id=request.key, occurred_at=request.sent_at, item=request.item))


async def tell(app: App) -> None:
    request = Request(
        key=UUID("0190a0b0-0000-7000-8000-000000000001"),
        sent_at=UtcInstant.parse("2026-01-05T09:00:00.1234567Z"),
        item="a book",
    )
    await place_order(app, request)
    print("first attempt, the answer is lost:", await count(app))
    await place_order(app, request)
    print("second attempt, same identity and content:", await count(app))
    try:
        await place_order(app, Request(key=request.key, sent_at=request.sent_at, item="two books"))
    except EventConflictError as error:
        print("same identity, other content:", type(error).__name__)
    print("nothing was changed:", await count(app))


async def count(app: App) -> str:
    async with app.unit_of_work() as unit:
        events = await unit.session.scalar(select(func.count()).select_from(outbox_table(metadata)))
    return f"{events} event"


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'shop.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await tell(App(engine=engine, metadata=metadata, contracts=contracts))
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
