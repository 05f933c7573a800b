"""Cancelled at any await, a unit keeps all or nothing, and no connection and no transaction is left."""

# ruff: noqa: PT012 - what raises is the end of the unit's block, so the block belongs inside

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable

import pytest
from sqlalchemy import event, insert, make_url, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from tests.support.databases import create_tables, engine_for
from tests.support.unit_of_work import (
    Interrupted,
    Model,
    Note,
    NoteParticipant,
    Order,
    checked_out,
    nothing_open_on_server,
    stored,
)
from tests.support.waiting import eventually
from uow import RollbackOnlyError, SelfManagedUnitOfWork

MOST_STEPS = 400


SERVER_OF = {
    "sqlite+aiosqlite": "sqlite",
    "postgresql+asyncpg": "postgresql",
    "postgresql+psycopg": "postgresql",
    "mysql+asyncmy": "mariadb",
    "mysql+aiomysql": "mariadb",
}


@pytest.fixture(params=["sqlite+aiosqlite", "postgresql+asyncpg", "mysql+asyncmy"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_kind(driver: str) -> str:
    return SERVER_OF[driver]


@pytest.fixture
async def ready(driver: str, database_url: str) -> AsyncIterator[AsyncEngine]:
    url = make_url(database_url).set(drivername=driver).render_as_string(hide_password=False)
    async with engine_for(url) as engine:
        await create_tables(engine, Model.metadata)
        yield engine
        assert checked_out(engine) == 0


@pytest.fixture
async def observer(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with engine_for(database_url) as engine:
        yield engine


async def _commits(unit: SelfManagedUnitOfWork, number: int) -> None:
    async with unit:
        unit.session.add(Order(id=number))
        unit.enqueue(Note(number))
        async with unit.session.begin_nested():
            await unit.session.execute(select(Order).where(Order.id == number))


async def _fails(unit: SelfManagedUnitOfWork, number: int) -> None:
    async with unit:
        unit.session.add(Order(id=number))
        unit.enqueue(Note(number))
        await unit.session.flush()
        raise LookupError


async def _swallows(unit: SelfManagedUnitOfWork, number: int) -> None:
    """Business code that catches what it should not."""
    async with unit:
        unit.enqueue(Note(number))
        try:
            async with unit:
                await unit.session.execute(insert(Order).values(id=number, customer="x"))
        except asyncio.CancelledError:
            pass
        await asyncio.sleep(0)


SCENARIOS = {"commits": _commits, "fails": _fails, "swallows": _swallows}
MODES = {
    "while waiting": {},
    "answer lost": {"late": True},
    "and once more": {"again": True},
    "answer lost and once more": {"late": True, "again": True},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("driver", "scenario"),
    [
        *(
            (driver, scenario)
            for driver in ("sqlite+aiosqlite", "postgresql+asyncpg")
            for scenario in SCENARIOS
        ),
        ("postgresql+psycopg", "commits"),
        ("mysql+asyncmy", "commits"),
        ("mysql+aiomysql", "commits"),
    ],
)
async def test_cancelled_at_every_single_await_nothing_is_left_behind(
    ready: AsyncEngine, observer: AsyncEngine, scenario: str, mode: str
) -> None:
    notes = NoteParticipant()
    number = 0
    for step in range(1, MOST_STEPS):
        number = step
        unit = SelfManagedUnitOfWork(async_sessionmaker(ready), [notes])
        run = Interrupted(SCENARIOS[scenario](unit, number), step, **MODES[mode])
        outcome = await _outcome(run)
        where = f"{scenario}, cancelled at await {step}"
        assert checked_out(ready) == 0, where
        assert not unit.active, where
        assert await eventually(lambda: nothing_open_on_server(ready, observer)), where
        kept = number in await stored(observer)
        assert (number in await stored(observer, Order)) == kept, where
        assert (number in notes.told) == kept, where
        if run.steps < step:
            break
        assert outcome in {asyncio.CancelledError, RollbackOnlyError} or kept, where
        assert scenario != "fails" or not kept, where
    else:
        raise AssertionError("the scenario never came to its end")
    # The last run was not cancelled any more.
    assert outcome == {"commits": None, "fails": LookupError, "swallows": None}[scenario]
    assert (number in await stored(observer)) == (scenario != "fails")


async def _outcome(run: Awaitable[None]) -> type[BaseException] | None:
    async def in_a_task_of_its_own() -> None:
        await run

    result = (await asyncio.gather(asyncio.create_task(in_a_task_of_its_own()), return_exceptions=True))[0]
    return None if result is None else type(result)


async def test_a_cancellation_before_commit_rolls_back_and_goes_on(ready: AsyncEngine) -> None:
    unit = SelfManagedUnitOfWork(async_sessionmaker(ready), [NoteParticipant()])
    flushed = asyncio.Event()

    async def work() -> None:
        async with unit:
            unit.session.add(Order(id=1))
            await unit.session.flush()
            flushed.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await flushed.wait()
    assert checked_out(ready) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checked_out(ready) == 0
    assert await stored(ready, Order) == []


async def test_a_timeout_around_the_unit_is_a_timeout_to_its_caller(ready: AsyncEngine) -> None:
    unit = SelfManagedUnitOfWork(async_sessionmaker(ready))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), unit:
            await unit.session.execute(insert(Order).values(id=1, customer="x"))
            await asyncio.Event().wait()
    assert await stored(ready, Order) == []


async def test_a_commit_that_runs_when_the_cancellation_comes_is_finished_first(ready: AsyncEngine) -> None:
    notes = NoteParticipant()
    unit = SelfManagedUnitOfWork(async_sessionmaker(ready), [notes])

    async def work() -> None:
        async with unit:
            unit.session.add(Order(id=1))
            unit.enqueue(Note(1))

    task = asyncio.create_task(work())
    event.listen(ready.sync_engine, "commit", lambda _connection: task.cancel(), once=True)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checked_out(ready) == 0
    assert not unit.active
    assert await stored(ready, Order) == [1]
    assert notes.told == [1]


SLOW_STATEMENTS = {
    "postgresql": "SELECT pg_sleep(0.5)",
    "mysql": "SELECT SLEEP(0.5)",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)"
    " SELECT max(i) FROM n",
}


async def test_a_statement_cancelled_and_swallowed_never_passes_for_a_commit(
    ready: AsyncEngine, observer: AsyncEngine
) -> None:
    unit = SelfManagedUnitOfWork(async_sessionmaker(ready))
    slow = text(SLOW_STATEMENTS[ready.dialect.name])
    with pytest.raises(RollbackOnlyError) as caught:
        async with unit:
            await unit.session.execute(insert(Order).values(id=1, customer="x"))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await unit.session.execute(slow)
    assert isinstance(caught.value.first_cause, asyncio.CancelledError)
    assert checked_out(ready) == 0
    assert await stored(ready, Order) == []
    assert await eventually(lambda: nothing_open_on_server(ready, observer))


async def test_a_cancellation_while_waiting_for_a_connection_takes_none(
    database_url: str, ready: AsyncEngine
) -> None:
    async with engine_for(database_url, pool_size=1, max_overflow=0) as small:
        async with small.connect():
            unit = SelfManagedUnitOfWork(async_sessionmaker(small), [NoteParticipant()])

            async def work() -> None:
                async with unit:
                    unit.enqueue(Note(1))

            task = asyncio.create_task(work())
            for _ in range(10):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert checked_out(small) == 1
        assert checked_out(small) == 0
        async with unit:
            unit.enqueue(Note(2))
        assert await stored(small) == [2]
