"""Apps with two consumers of one event, on a database and a broker that a test chooses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.context import HandlerContext
from inbox.handlers import Consumer
from relay.app import App
from relay.schema import add_messaging_tables
from tests.support.databases import create_tables
from uow.contracts import Contracts
from uow.event import Event


@dataclass(frozen=True, kw_only=True)
class Placed(Event):
    number: int


@dataclass(frozen=True, kw_only=True)
class Billed(Event):
    number: int


@dataclass
class Seen:
    """What the handlers saw, and whether billing works."""

    billed: list[int] = field(default_factory=list)
    shipped: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    broken: bool = False


QUICK = {
    "relay": {"poll_interval_seconds": 0.2, "stop_grace_seconds": 5, "outage_pause_seconds": 0.2},
    "inbox": {"max_retry_attempts": 0},
}


def make_app(engine: AsyncEngine, **parts: Any) -> tuple[App, Seen]:
    """Billing answers Placed with Billed, shipping sees both; none of it works while `broken`."""
    metadata, contracts, seen = MetaData(), Contracts(), Seen()
    add_messaging_tables(metadata, schema=parts.pop("schema", None))
    contracts.register(Placed, name="orders.placed", version=1)
    contracts.register(Billed, name="orders.billed", version=1)
    billing, shipping = Consumer("billing"), Consumer("shipping")

    @billing.handles(Placed)
    async def bill(event: Placed, context: HandlerContext) -> None:
        if seen.broken:
            raise RuntimeError("out of paper")
        context.enqueue(Billed(number=event.number))
        seen.billed.append(event.number)

    @shipping.handles(Placed)
    async def ship(event: Placed, context: HandlerContext) -> None:
        seen.shipped.append(event.number)

    @shipping.handles(Billed)
    async def close(event: Billed, context: HandlerContext) -> None:
        seen.closed.append(event.number)

    options = QUICK | parts.pop("options", {})
    given = {"consumers": [billing, shipping], "environment": "development"} | parts
    return App(engine=engine, metadata=metadata, contracts=contracts, options=options, **given), seen


async def ready_app(engine: AsyncEngine, **parts: Any) -> tuple[App, Seen]:
    """The same, its tables created."""
    app, seen = make_app(engine, **parts)
    await create_tables(engine, app.metadata)
    return app, seen


async def place(app: App, *numbers: int) -> list[Placed]:
    """Enqueue one event for each number, in one unit."""
    events = [Placed(number=number) for number in numbers]
    async with app.unit_of_work() as unit:
        for event in events:
            unit.enqueue(event)
    return events


@contextlib.asynccontextmanager
async def running(run: Callable[[asyncio.Event], Awaitable[None]]) -> AsyncIterator[asyncio.Event]:
    """Run it while the block runs, then stop it gracefully; its error is raised at the end."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait([task], timeout=30)
        assert task.done(), "it did not stop"
    task.result()
