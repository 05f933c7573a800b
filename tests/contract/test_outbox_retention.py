"""Counts of what waits, and deleting what was published long ago."""

from uuid import uuid4

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import OutboxCounts, OutboxOptions
from tests.support.outbox import Outbox, message, messages
from uow.sql.clock import DatabaseClock


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine, OutboxOptions(published_retention_seconds=100)).create()


async def test_counts_of_an_empty_outbox_are_zero_and_nothing_is_oldest(outbox: Outbox) -> None:
    assert await outbox.step(outbox.store.counts) == OutboxCounts(
        pending=0, publishing=0, dead_lettered=0, oldest_unfinished_age_seconds=None
    )


async def test_counts_are_by_state_and_the_oldest_is_the_first_not_yet_published(outbox: Outbox) -> None:
    await outbox.append(*messages(2))
    await outbox.publish(await outbox.claim())
    outbox.advance(1)
    await outbox.append(*messages(3))
    await outbox.dead_letter(await outbox.claim())
    outbox.advance(1)
    await outbox.append(*messages(4))
    await outbox.claim()
    outbox.advance(0.25)
    await outbox.append(*messages(5, key="held"))
    await outbox.claim(1)
    outbox.advance(2)
    assert await outbox.step(outbox.store.counts) == OutboxCounts(
        pending=4, publishing=5, dead_lettered=3, oldest_unfinished_age_seconds=2.25
    )


async def test_by_the_databases_clock_the_age_is_never_negative(engine: AsyncEngine) -> None:
    outbox = await Outbox(engine, clock=DatabaseClock()).create()
    await outbox.append(message())
    age = (await outbox.step(outbox.store.counts)).oldest_unfinished_age_seconds
    assert age is not None
    assert 0 <= age < 60


async def test_only_published_rows_strictly_older_than_the_retention_are_deleted(outbox: Outbox) -> None:
    published, dead, discarded = messages(3)
    await outbox.append(published)
    await outbox.publish(await outbox.claim())
    await outbox.append(dead, discarded)
    await outbox.dead_letter(await outbox.claim())
    await outbox.step(outbox.store.discard, [discarded.id])
    publishing, pending = messages(2)
    await outbox.append(publishing)
    await outbox.claim()
    await outbox.append(pending)

    outbox.advance(100)
    assert await outbox.step(outbox.store.cleanup) == 0
    outbox.advance(0.001)
    assert await outbox.step(outbox.store.cleanup) == 1
    assert await outbox.step(outbox.store.find, published.id) is None
    outbox.advance(10_000_000)
    assert await outbox.step(outbox.store.cleanup) == 0
    assert await outbox.states([dead, discarded, publishing, pending]) == [
        "dead_lettered", "discarded", "publishing", "pending",
    ]  # fmt: skip


async def test_cleaning_is_bounded_and_takes_the_oldest_first(outbox: Outbox) -> None:
    old = await outbox.append(*messages(3))
    await outbox.publish(await outbox.claim())
    outbox.advance(1)
    await outbox.append(*messages(4))
    await outbox.publish(await outbox.claim())
    outbox.advance(200)
    assert await outbox.step(outbox.store.cleanup, limit=3) == 3
    assert [await outbox.step(outbox.store.find, each.id) for each in old] == [None] * 3
    assert await outbox.step(outbox.store.cleanup, limit=3) == 3
    assert await outbox.step(outbox.store.cleanup, limit=3) == 1
    assert await outbox.step(outbox.store.cleanup, limit=3) == 0


@pytest.mark.parametrize("limit", [0, 10_001])
async def test_a_cleanup_takes_1_to_10000(outbox: Outbox, limit: int) -> None:
    with pytest.raises(ValueError, match="limit must be between 1 and 10000"):
        await outbox.step(outbox.store.cleanup, limit=limit)


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"], indirect=True)
async def test_the_lifecycle_follows_a_schema_that_the_engine_translates(engine: AsyncEngine) -> None:
    tenant = f"tenant_{uuid4().hex[:12]}"
    translated = engine.execution_options(schema_translate_map={None: tenant})
    async with engine.begin() as connection:
        await connection.execute(text(f"CREATE SCHEMA {tenant}"))
    try:
        outbox = await Outbox(translated, OutboxOptions(published_retention_seconds=100)).create()
        await outbox.append(*messages(2, key="k"), message())
        await outbox.publish(await outbox.claim())
        outbox.advance(101)
        assert await outbox.step(outbox.store.cleanup) == 2
        assert len((await outbox.claim()).rows) == 1
        async with engine.connect() as connection:
            names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
        assert names == []
    finally:
        async with engine.begin() as connection:
            cascade = " CASCADE" if engine.dialect.name == "postgresql" else ""
            await connection.execute(text(f"DROP SCHEMA {tenant}{cascade}"))
