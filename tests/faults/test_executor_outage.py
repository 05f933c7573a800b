"""A database that is away for a while delays jobs; none of them ends twice, and executors need no restart."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from jobs import JobContext, JobState
from jobs.execution.failure import DATABASE_LOST
from tests.support.databases import engine_for
from tests.support.executing import BOOK, MAIL, SCOPE, Executing, job
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])


class Gate:
    """A behaviour of handlers that holds each until the test lets it go."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)
        self.opened = asyncio.Event()

    async def __call__(self, context: JobContext) -> None:
        self.entered.release()
        await self.opened.wait()


@contextlib.asynccontextmanager
async def behind_proxy(executing: Executing, gate: Gate) -> AsyncIterator[TcpProxy]:
    """An executor behind the proxy, with a job in hand; in the end it still works afterwards."""
    async with (
        TcpProxy.before(executing.url) as proxy,
        engine_for(proxy.through(executing.url)) as engine,
        executing.executor("through", gate, engine=engine, lease_seconds=15),
    ):
        await gate.entered.acquire()
        yield proxy
        await executing.submit(job(MAIL, "afterwards"))
        await executing.until(JobState.SUCCEEDED, timeout=20)
    assert executing.calls.of("afterwards") == [(1, "through")]
    assert await executing.faults() == []


@contextlib.asynccontextmanager
async def outage(proxy: TcpProxy) -> AsyncIterator[None]:
    """The database is away inside the block, and that was noticed."""
    proxy.refusing = True
    proxy.cut()
    refused = proxy.accepted + 3
    await eventually(lambda: proxy.accepted >= refused)
    yield
    proxy.refusing = False


async def test_an_outage_while_a_plain_handler_runs_costs_it_nothing(executing: Executing) -> None:
    await executing.submit(job(MAIL))
    gate = Gate()
    async with behind_proxy(executing, gate) as proxy:
        async with outage(proxy):
            pass
        gate.opened.set()
    assert await executing.states(MAIL) == ("succeeded", ["succeeded"])
    assert executing.calls.of(MAIL) == [(1, "through")]


async def test_an_end_during_an_outage_is_written_when_the_database_is_back(
    executing: Executing, caplog: pytest.LogCaptureFixture
) -> None:
    await executing.submit(job(MAIL))
    gate = Gate()
    async with behind_proxy(executing, gate) as proxy, outage(proxy):
        gate.opened.set()
        await eventually(lambda: "wait to be settled" in caplog.text)
    assert await executing.states(MAIL) == ("succeeded", ["succeeded"])
    assert executing.calls.of(MAIL) == [(1, "through")]


async def test_a_transactional_handler_whose_connection_is_lost_runs_again_from_the_start(
    executing: Executing, caplog: pytest.LogCaptureFixture
) -> None:
    await executing.submit(job(BOOK))
    gate = Gate()
    async with behind_proxy(executing, gate) as proxy, outage(proxy):
        gate.opened.set()
        await eventually(lambda: "wait to be settled" in caplog.text)
    assert await executing.states(BOOK) == ("succeeded", ["interrupted", "succeeded"])
    first, _ = await executing.client.attempts(SCOPE, BOOK)
    assert first.error_code == DATABASE_LOST
