"""Handlers on a database that reads from a snapshot by default do not lose to the renewal of their lease."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from sqlalchemy import MetaData, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from inbox import Consumer, HandlerContext
from relay import App, add_messaging_tables
from tests.support.apps import running
from tests.support.databases import create_tables
from tests.support.waiting import eventually
from uow import Contracts, Event

pytestmark = pytest.mark.parametrize("database_kind", ["mariadb"], indirect=True)


@dataclass(frozen=True, kw_only=True)
class Asked(Event):
    """Asks the handler at which isolation level it runs."""


@pytest.fixture
async def strict_engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """As MariaDB is set up since 11.6."""
    engine = create_async_engine(database_url)

    @event.listens_for(engine.sync_engine, "connect")
    def be_strict(connection: object, _record: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("SET SESSION innodb_snapshot_isolation = ON")
        cursor.close()

    yield engine
    await engine.dispose()


async def isolation_seen_by_a_long_handler(engine: AsyncEngine) -> list[str]:
    metadata, contracts, asked = MetaData(), Contracts(), Consumer("asked")
    add_messaging_tables(metadata)
    contracts.register(Asked, name="asked", version=1)
    seen: list[str] = []

    @asked.handles(Asked)
    async def read_then_take_long(_event: Asked, context: HandlerContext) -> None:
        lease = text("SELECT lease_expires_at FROM inbox_receipt")
        first = (await context.session.execute(lease)).scalar_one()
        level = (await context.session.execute(text("SELECT @@tx_isolation"))).scalar_one()

        async def renewed() -> bool:
            async with engine.connect() as other:
                return bool((await other.execute(lease)).scalar_one() > first)

        await eventually(renewed, timeout=10)
        seen.append(level)

    options = {"inbox": {"lease_seconds": 2.0, "processing_timeout_seconds": 20.0}}
    app = App(engine=engine, metadata=metadata, contracts=contracts, consumers=[asked], options=options)
    await create_tables(engine, metadata)
    async with running(app.run):
        async with app.unit_of_work() as unit:
            unit.enqueue(Asked())

        async def processed() -> bool:
            async with engine.connect() as other:
                return (await other.execute(text("SELECT state FROM inbox_receipt"))).scalars().all() == [
                    b"processed"
                ]

        await eventually(processed, timeout=20)
    await app.close()
    return seen


async def test_a_handler_that_reads_first_completes_after_its_lease_was_renewed(
    strict_engine: AsyncEngine,
) -> None:
    assert await isolation_seen_by_a_long_handler(strict_engine) == ["READ-COMMITTED"]
