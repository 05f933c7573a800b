"""The fixtures `scheduled` and `bench`, no schedules yet on each database, and `another_engine`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.schedule_bench import ScheduleBench
from tests.support.schedules import MakeEngine, StoredSchedules, metadata


@pytest.fixture(scope="session")
def schedules_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Gives the URL of a database of the asked kind with all our tables in it; made once a session."""
    urls: dict[str, str] = {}
    stack = AsyncExitStack()
    directory = tmp_path_factory.mktemp("schedules")

    async def create(kind: str) -> str:
        url = await stack.enter_async_context(temporary_database_url(kind, directory))
        async with engine_for(url) as engine:
            await create_tables(engine, metadata)
        return url

    # An event loop of its own, apart from those of the tests, which lives until the databases are dropped.
    with ThreadPoolExecutor(1) as outside:
        runner = asyncio.Runner()

        def url_of(kind: str) -> str:
            if kind not in urls:
                urls[kind] = outside.submit(runner.run, create(kind)).result()
            return urls[kind]

        yield url_of
        outside.submit(runner.run, stack.aclose()).result()
        outside.submit(runner.close).result()


@pytest.fixture
async def scheduled(
    database_kind: str, schedules_url: Callable[[str], str]
) -> AsyncIterator[StoredSchedules]:
    """Stored schedules, of which there are none yet."""
    async with engine_for(schedules_url(database_kind)) as engine:
        empty = StoredSchedules(engine)
        await empty.clear()
        yield empty


@pytest.fixture
async def another_engine(
    database_kind: str, schedules_url: Callable[[str], str]
) -> AsyncIterator[MakeEngine]:
    """Makes engines of the same database, as other processes have them."""
    async with AsyncExitStack() as stack:

        async def make() -> AsyncEngine:
            return await stack.enter_async_context(engine_for(schedules_url(database_kind)))

        yield make


@pytest.fixture
async def bench(database_kind: str, schedules_url: Callable[[str], str]) -> AsyncIterator[ScheduleBench]:
    """An empty bench."""
    async with engine_for(schedules_url(database_kind), pool_size=20) as engine:
        made = ScheduleBench(engine)
        await made.clear()
        yield made
