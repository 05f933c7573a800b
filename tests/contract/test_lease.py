"""A named lease has one owner on every database."""

import asyncio
from datetime import UTC, datetime

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.databases import create_tables
from tests.support.statements import recorded_statements
from uow.sql.clock import PinnedClock
from uow.sql.lease import Lease, LeaseNotMappedError, LeaseStore, add_lease_table, lease_table
from uow.sql.step import run_step

metadata = MetaData()
table = add_lease_table(metadata)


@pytest.fixture
def clock() -> PinnedClock:
    return PinnedClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncEngine:
    await create_tables(engine, metadata)
    return engine


async def acquire(
    engine: AsyncEngine, store: LeaseStore, owner: str, name: str = "retention"
) -> Lease | None:
    return await run_step(engine, lambda c: store.acquire(c, name, owner=owner, lease_seconds=30))


async def test_of_many_that_ask_at_once_one_becomes_the_owner(ready: AsyncEngine) -> None:
    store = LeaseStore(table)
    answers = await asyncio.gather(*(acquire(ready, store, f"process {number}") for number in range(8)))
    assert [lease.fencing_token for lease in answers if lease is not None] == [1]


async def test_asking_for_a_lease_that_is_held_inserts_nothing_of_which_a_driver_would_warn(
    ready: AsyncEngine,
) -> None:
    store = LeaseStore(table)
    assert await acquire(ready, store, "first") is not None
    with recorded_statements(ready) as statements:
        assert await acquire(ready, store, "second") is None
    assert [each for each in statements if "INSERT" in each] == []


async def test_an_expired_lease_is_taken_by_one_of_many(ready: AsyncEngine, clock: PinnedClock) -> None:
    store = LeaseStore(table, clock=clock)
    assert await acquire(ready, store, "first") is not None
    clock.advance(30)
    answers = await asyncio.gather(*(acquire(ready, store, f"process {number}") for number in range(8)))
    assert [lease.fencing_token for lease in answers if lease is not None] == [2]


async def test_a_lease_is_lost_at_exactly_its_expiry(ready: AsyncEngine, clock: PinnedClock) -> None:
    store = LeaseStore(table, clock=clock)
    lease = await acquire(ready, store, "first")
    assert lease is not None
    clock.advance(29.999999)
    assert await acquire(ready, store, "second") is None
    assert await run_step(ready, lambda c: store.renew(c, lease, lease_seconds=30))
    clock.advance(30)
    assert not await run_step(ready, lambda c: store.renew(c, lease, lease_seconds=30))
    assert not await run_step(ready, lambda c: store.release(c, lease))
    assert await acquire(ready, store, "second") == Lease(name="retention", owner="second", fencing_token=2)


async def test_a_former_owner_can_neither_renew_nor_release_what_another_holds(
    ready: AsyncEngine, clock: PinnedClock
) -> None:
    store = LeaseStore(table, clock=clock)
    old = await acquire(ready, store, "same owner")
    clock.advance(31)
    new = await acquire(ready, store, "same owner")
    assert old is not None
    assert new is not None
    assert not await run_step(ready, lambda c: store.renew(c, old, lease_seconds=30))
    assert not await run_step(ready, lambda c: store.release(c, old))
    assert await run_step(ready, lambda c: store.renew(c, new, lease_seconds=30))


async def test_a_released_lease_is_free_at_once_and_its_token_goes_on(
    ready: AsyncEngine, clock: PinnedClock
) -> None:
    store = LeaseStore(table, clock=clock)
    lease = await acquire(ready, store, "first")
    assert lease is not None
    assert await run_step(ready, lambda c: store.release(c, lease))
    again = await acquire(ready, store, "second")
    assert again is not None
    assert again.fencing_token == 2


async def test_leases_of_different_names_do_not_meet(ready: AsyncEngine) -> None:
    store = LeaseStore(table)
    assert await acquire(ready, store, "first", "retention") is not None
    assert await acquire(ready, store, "second", "Retention") is not None


async def test_each_verb_takes_at_most_three_statements(ready: AsyncEngine) -> None:
    store = LeaseStore(table)
    with recorded_statements(ready) as statements:
        lease = await acquire(ready, store, "first")
        assert len(statements) == 3
        assert await acquire(ready, store, "second") is None
        assert len(statements) == 5
    assert lease is not None
    with recorded_statements(ready) as statements:
        await run_step(ready, lambda c: store.renew(c, lease, lease_seconds=1))
        await run_step(ready, lambda c: store.release(c, lease))
    assert len(statements) == 2


def test_metadata_without_the_table_is_refused_by_name() -> None:
    with pytest.raises(LeaseNotMappedError, match="add_lease_table"):
        lease_table(MetaData())
    assert add_lease_table(metadata) is lease_table(metadata)
