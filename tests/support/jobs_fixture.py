"""The fixture `stored`: no jobs yet on each database; databases are made once a session.

They hold the tables of `tests.support.job_shop` too.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import pytest

from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.job_shop import metadata
from tests.support.jobs import StoredJobs


@pytest.fixture(scope="session")
def jobs_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Gives the URL of a database of the asked kind with the tables of jobs in it."""
    urls: dict[str, str] = {}
    stack = AsyncExitStack()
    directory = tmp_path_factory.mktemp("jobs")

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
async def stored(database_kind: str, jobs_url: Callable[[str], str]) -> AsyncIterator[StoredJobs]:
    """A store without jobs."""
    async with engine_for(jobs_url(database_kind)) as engine:
        empty = StoredJobs(engine)
        await empty.clear()
        yield empty
