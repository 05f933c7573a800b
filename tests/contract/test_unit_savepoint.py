"""Savepoints are the business's own; what is staged in one that rolls back goes with it."""

# ruff: noqa: PT012 - what raises is the end of the unit's block, so the block belongs inside

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from tests.support.databases import create_tables
from tests.support.unit_of_work import Model, Note, NoteParticipant, Order, checked_out, stored
from uow import RollbackOnlyError, SelfManagedUnitOfWork


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    await create_tables(engine, Model.metadata)
    yield engine
    assert checked_out(engine) == 0


@pytest.fixture
def unit(ready: AsyncEngine) -> SelfManagedUnitOfWork:
    return SelfManagedUnitOfWork(async_sessionmaker(ready), [NoteParticipant()])


async def test_a_released_savepoint_keeps_its_rows_and_staged_things(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        async with unit.session.begin_nested():
            unit.session.add(Order(id=1))
            unit.enqueue(Note(1))
        unit.enqueue(Note(2))
    assert await stored(ready, Order) == [1]
    assert await stored(ready) == [1, 2]


async def test_a_savepoint_that_rolls_back_takes_its_staged_things_with_it(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.enqueue(Note(1))
        unit.session.add(Order(id=1))
        with pytest.raises(KeyError):
            async with unit.session.begin_nested():
                unit.session.add(Order(id=2))
                await unit.session.flush()
                unit.enqueue(Note(2))
                raise KeyError
        with pytest.raises(KeyError):
            async with unit.session.begin_nested():
                unit.enqueue(Note(3, "staged without a statement"))
                raise KeyError
        savepoint = await unit.session.begin_nested()
        unit.enqueue(Note(4))
        await savepoint.rollback()
        unit.enqueue(Note(5))
    assert await stored(ready, Order) == [1]
    assert await stored(ready) == [1, 5]


async def test_what_went_with_a_savepoint_may_be_staged_again_with_other_content(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.enqueue(Note(1))
        with pytest.raises(KeyError):
            async with unit.session.begin_nested():
                unit.enqueue(Note(1))
                unit.enqueue(Note(2, "first"))
                raise KeyError
        unit.enqueue(Note(2, "second"))
    assert await stored(ready) == [1, 2]


async def test_a_released_savepoint_inside_one_that_rolls_back_goes_as_well(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        with pytest.raises(KeyError):
            async with unit.session.begin_nested():
                unit.enqueue(Note(1))
                async with unit.session.begin_nested():
                    unit.enqueue(Note(2))
                    await unit.session.execute(insert(Order).values(id=1))
                raise KeyError
        async with unit.session.begin_nested():
            unit.enqueue(Note(3))
            with pytest.raises(KeyError):
                async with unit.session.begin_nested():
                    unit.enqueue(Note(4))
                    raise KeyError
    assert await stored(ready, Order) == []
    assert await stored(ready) == [3]


async def test_a_flush_that_fails_inside_a_savepoint_costs_the_savepoint_only(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.session.add(Order(id=1))
    async with unit:
        unit.session.add(Order(id=2))
        unit.enqueue(Note(1))
        with pytest.raises(IntegrityError):
            async with unit.session.begin_nested():
                unit.enqueue(Note(2))
                unit.session.add(Order(id=1))
                await unit.session.flush()
        unit.enqueue(Note(3))
    assert await stored(ready, Order) == [1, 2]
    assert await stored(ready) == [1, 3]


async def test_a_statement_that_fails_inside_a_savepoint_costs_the_savepoint_only(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.session.add(Order(id=1))
    async with unit:
        with pytest.raises(IntegrityError):
            async with unit.session.begin_nested():
                unit.enqueue(Note(2))
                await unit.session.execute(insert(Order).values(id=1))
        unit.enqueue(Note(3))
    assert await stored(ready) == [3]


async def test_a_flush_error_that_is_caught_inside_its_savepoint_keeps_nothing_of_the_savepoint(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.session.add(Order(id=1))
    async with unit:
        async with unit.session.begin_nested():
            unit.enqueue(Note(1))
            unit.session.add(Order(id=1))
            with pytest.raises(IntegrityError):
                await unit.session.flush()
            unit.enqueue(Note(2))
        unit.enqueue(Note(3))
    assert await stored(ready) == [3]


async def test_a_savepoint_of_the_connection_itself_is_followed_too(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        connection = await unit.session.connection()
        async with connection.begin_nested():
            unit.enqueue(Note(1))
        savepoint = await connection.begin_nested()
        unit.enqueue(Note(2))
        async with connection.begin_nested():
            unit.enqueue(Note(3))
        await savepoint.rollback()
        unit.enqueue(Note(4))
    assert await stored(ready) == [1, 4]


async def test_savepoints_are_followed_on_an_engine_with_options_too_and_when_written_as_text(
    ready: AsyncEngine,
) -> None:
    """Such an engine hears its own listeners and those of the engine it came from."""
    for engine in (ready.execution_options(a=1), ready, ready.execution_options(a=1)):
        number = len(await stored(ready)) * 10
        async with SelfManagedUnitOfWork(async_sessionmaker(engine), [NoteParticipant()]) as unit:
            unit.enqueue(Note(number + 1))
            async with unit.session.begin_nested():
                await unit.session.execute(insert(Order).values(id=number, customer="x"))
                unit.enqueue(Note(number + 2))
            await unit.session.execute(text("SAVEPOINT mine"))
            unit.enqueue(Note(number + 3))
            await unit.session.execute(text("ROLLBACK TO SAVEPOINT mine"))
            unit.enqueue(Note(number + 4))
    assert await stored(ready) == [1, 2, 4, 31, 32, 34, 61, 62, 64]


async def test_a_savepoint_left_open_is_released_by_the_commit(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        await unit.session.begin_nested()
        unit.session.add(Order(id=1))
        unit.enqueue(Note(1))
    assert await stored(ready, Order) == [1]
    assert await stored(ready) == [1]


async def test_a_nested_unit_that_fails_inside_a_savepoint_still_fails_the_whole_unit(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    with pytest.raises(RollbackOnlyError):
        async with unit:
            unit.session.add(Order(id=1))
            with pytest.raises(KeyError):
                async with unit.session.begin_nested(), unit:
                    raise KeyError
    assert await stored(ready, Order) == []


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_a_savepoint_first_on_an_sqlite_engine_nobody_prepared_is_no_commit(
    ready: AsyncEngine, database_url: str
) -> None:
    """Python's SQLite driver begins nothing before SAVEPOINT, so that its release would be a commit."""
    engine = create_async_engine(database_url)
    unit = SelfManagedUnitOfWork(async_sessionmaker(engine))
    with pytest.raises(KeyError):
        async with unit:
            async with unit.session.begin_nested():
                await unit.session.execute(insert(Order).values(id=1))
            raise KeyError
    await engine.dispose()
    assert await stored(ready, Order) == []
