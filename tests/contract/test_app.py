"""An App runs its relay and its consumers on every database, and several Apps run side by side."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from relay.admin.failed_message import FailedFilter
from relay.admin.operation import OperationResult
from relay.app import App, DatabaseUnavailableError, NothingToRunError
from relay.consuming.subscription import UnknownConsumerError
from relay.health import Readiness
from relay.schema import SchemaError
from tests.support.apps import Placed, Seen, make_app, place, ready_app, running
from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.waiting import eventually
from uow.unit import SelfManagedUnitOfWork

only_sqlite = pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)


@pytest.fixture
async def shop(engine: AsyncEngine) -> tuple[App, Seen]:
    return await ready_app(engine)


async def test_an_event_reaches_each_consumer_once_and_so_does_what_follows_from_it(
    shop: tuple[App, Seen],
) -> None:
    app, seen = shop
    async with running(app.run):
        await place(app, 1, 2, 3)
        await eventually(lambda: len(seen.closed) == 3)
    assert [sorted(each) for each in (seen.billed, seen.shipped, seen.closed)] == [[1, 2, 3]] * 3
    status = await app.status()
    assert [count for _, _, count in status.rows()] == [0] * 7
    await app.close()


async def test_what_was_rolled_back_is_never_heard_of(shop: tuple[App, Seen]) -> None:
    app, seen = shop

    async def fail(unit: SelfManagedUnitOfWork) -> None:
        unit.enqueue(Placed(number=1))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await app.unit_of_work().execute(fail)
    async with running(app.run):
        await place(app, 2)
        await eventually(lambda: seen.closed == [2])
    assert seen.billed == seen.shipped == [2]
    await app.close()


async def test_several_relays_in_one_process_share_the_work(shop: tuple[App, Seen]) -> None:
    app, _ = shop
    await place(app, *range(50))
    async with running(lambda stop: app.run_relay(stop, relays=3)):
        await eventually(lambda: _received(app, 100))
    with pytest.raises(ValueError, match="relays must be between 1 and 64, not 65"):
        await app.run_relay(relays=65)
    await app.close()


async def test_relay_and_consumers_run_side_by_side_as_tasks(shop: tuple[App, Seen]) -> None:
    app, seen = shop
    async with running(app.run_relay), running(app.run_consumers):
        await place(app, 1)
        await eventually(lambda: seen.closed == [1])
    await app.close()


async def test_relay_and_consumers_run_apart(shop: tuple[App, Seen]) -> None:
    app, seen = shop
    await place(app, 1)
    async with running(app.run_relay):
        await eventually(lambda: _received(app, 2))
    assert seen.shipped == []
    async with running(lambda stop: app.run_consumers(stop, only=["shipping"])):
        await eventually(lambda: seen.shipped == [1])
    assert seen.billed == []
    await app.close()


async def test_a_dead_message_is_replayed_to_the_one_that_failed_and_absorbed_by_the_others(
    shop: tuple[App, Seen],
) -> None:
    app, seen = shop
    seen.broken = True
    async with running(app.run):
        (event,) = await place(app, 7)
        failed = await eventually(lambda: _failed(app))
        assert [(each.consumer, each.message_id) for each in failed] == [("billing", event.id)]
        seen.broken = False
        report = await app.failed.replay(failed[0].failure_id, operator="anna")
        assert report.result is OperationResult.ACCEPTED
        await eventually(lambda: seen.closed == [7])
        await eventually(lambda: _published_all(app))
    assert (seen.billed, seen.shipped) == ([7], [7])
    await app.close()


async def test_the_process_is_unready_as_soon_as_it_is_told_to_stop(shop: tuple[App, Seen]) -> None:
    app, _ = shop
    async with running(app.run) as stop:
        await eventually(lambda: _has_check(app, "loops"))
        report = await app.health.report()
        assert report.readiness is Readiness.READY
        assert [check.name for check in report.checks] == ["database", "tables", "loops"]
        stop.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not (await app.health.report()).is_ready
    await app.close()


async def test_without_its_tables_nothing_runs_and_readiness_says_why(engine: AsyncEngine) -> None:
    app, _ = make_app(engine)
    async with engine.begin() as connection:
        await connection.execute(text("SELECT 1"))
    for run in (app.run, app.run_relay, app.run_consumers):
        with pytest.raises(SchemaError, match="missing table: outbox_message"):
            await run()
    report = await app.health.report()
    assert [(check.name, check.readiness) for check in report.checks] == [
        ("database", Readiness.READY),
        ("tables", Readiness.UNREADY),
    ]
    assert "missing table: outbox_message" in report.checks[1].detail
    await app.close()


@only_sqlite
async def test_cancelling_the_run_ends_it_and_leaves_the_pool_full(shop: tuple[App, Seen]) -> None:
    app, seen = shop
    task = asyncio.create_task(app.run())
    await place(app, 1)
    await eventually(lambda: seen.closed == [1])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert app.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    await app.close()


@only_sqlite
async def test_consumers_that_are_not_there_are_told_with_the_closest_name(shop: tuple[App, Seen]) -> None:
    app, _ = shop
    with pytest.raises(UnknownConsumerError, match="no consumer 'biling'; did you mean 'billing'"):
        await app.run_consumers(only=["biling"])
    lonely, _ = make_app(app.engine, consumers=[])
    with pytest.raises(NothingToRunError, match="no consumers"):
        await lonely.run_consumers()
    with pytest.raises(NothingToRunError, match="every event would be unroutable"):
        await lonely.run()


async def test_a_database_that_is_away_is_told_without_its_password() -> None:
    engine = create_async_engine("postgresql+asyncpg://anna:hunter2@127.0.0.1:1/shop")
    app, _ = make_app(engine)
    with pytest.raises(DatabaseUnavailableError) as caught:
        await app.run()
    assert "postgresql+asyncpg://anna:***@127.0.0.1:1/shop" in str(caught.value)
    report = await app.health.report()
    assert report.readiness is Readiness.UNREADY
    assert "hunter2" not in str(caught.value) + repr(report)


async def test_apps_on_different_databases_run_side_by_side_in_one_process(tmp_path: Path) -> None:
    async with (
        temporary_database_url("sqlite", tmp_path) as one_url,
        temporary_database_url("postgresql", tmp_path) as other_url,
        engine_for(one_url) as one_engine,
        engine_for(other_url) as other_engine,
    ):
        one, one_seen = await ready_app(one_engine)
        other, other_seen = await ready_app(other_engine)
        async with running(one.run), running(other.run):
            await place(one, 1)
            await place(other, 2)
            await eventually(lambda: (one_seen.closed, other_seen.closed) == ([1], [2]))
        await one.close()
        await other.close()


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
async def test_two_business_contexts_share_a_database_in_schemas_of_their_own(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        for schema in ("sales", "stock"):
            await connection.execute(text(f"CREATE SCHEMA {schema}"))
    sales, sales_seen = make_app(engine, schema="sales")
    stock, stock_seen = make_app(engine, schema="stock")
    for app in (sales, stock):
        await create_tables(engine, app.metadata)
    async with running(sales.run), running(stock.run):
        await place(sales, 1)
        await place(stock, 2)
        await eventually(lambda: (sales_seen.closed, stock_seen.closed) == ([1], [2]))
    await sales.close()
    await stock.close()


async def _received(app: App, count: int) -> bool:
    return (await app.status()).inbox.received == count


async def _failed(app: App):  # type: ignore[no-untyped-def]
    return (await app.failed.list(FailedFilter())).messages


async def _published_all(app: App) -> bool:
    counts = (await app.status()).outbox
    return counts.pending + counts.publishing == 0


async def _has_check(app: App, name: str) -> bool:
    return name in [check.name for check in (await app.health.report()).checks]
