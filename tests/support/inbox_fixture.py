"""The fixture `inbox`: an empty inbox on each database; the databases themselves are made once a session."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import delete

from tests.support import receiving
from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.inbox import Inbox


@pytest.fixture(scope="session")
def inbox_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Gives the URL of a database of the asked kind with an inbox in it."""
    urls: dict[str, str] = {}
    stack = AsyncExitStack()
    directory = tmp_path_factory.mktemp("inbox")

    async def create(kind: str) -> str:
        url = await stack.enter_async_context(temporary_database_url(kind, directory))
        async with engine_for(url) as engine:
            await Inbox(engine).create()
            await create_tables(engine, receiving.metadata)
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
async def inbox(database_kind: str, inbox_url: Callable[[str], str]) -> AsyncIterator[Inbox]:
    """An inbox without receipts."""
    async with engine_for(inbox_url(database_kind)) as engine:
        empty = Inbox(engine)
        await empty.step(lambda connection: connection.execute(delete(empty.table)))
        yield empty


@pytest.fixture
async def bench(inbox: Inbox) -> receiving.Bench:
    """Receivers over an empty inbox, with empty business tables beside it."""
    for table in receiving.metadata.sorted_tables:
        await inbox.step(lambda connection, table=table: connection.execute(delete(table)))
    return receiving.Bench(inbox)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The outcomes that receivers counted."""
    outcomes: list[str] = []

    def record(**measured: object) -> None:
        assert (measured["operation"], measured["provider"]) == ("consume", "local")
        assert isinstance(measured["seconds"], float)
        assert measured["consumer"]
        outcomes.append(str(measured["outcome"]))

    monkeypatch.setattr("inbox.receiver.record_operation", record)
    return outcomes
