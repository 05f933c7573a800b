"""A database that is away for a while delays jobs; none of them ends twice, and executors need no restart."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobs import AttemptState, JobContext, JobState, StopReason
from jobs.execution.failure import DATABASE_LOST
from jobs.recover import LEASE_EXPIRED
from tests.faults.freeze import ENDING, at_point
from tests.support.databases import engine_for
from tests.support.executing import BOOK, MAIL, SCOPE, Executing, job
from tests.support.proxy import Reaction, TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])

QUIET = {"concurrency": 1, "poll_interval_seconds": 30.0, "status_poll_seconds": 30.0}
"""Nothing comes to the database while a handler runs but what the handler and its end bring."""


class Gate:
    """A behaviour of handlers that holds each until the test lets it go."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)
        self.opened = asyncio.Event()
        self.stops: list[StopReason | None] = []

    async def __call__(self, context: JobContext) -> None:
        self.entered.release()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.stops.append(context.stop_reason)
            raise


@contextlib.asynccontextmanager
async def behind_proxy(
    executing: Executing,
    gate: Gate,
    *,
    lease_seconds: float = 10,
    first_end: Reaction = Reaction.SIGNAL_ONLY,
    **options: Any,
) -> AsyncIterator[TcpProxy]:
    """An executor that reaches the database through the proxy, with a job in hand at first.

    first_end: what happens to the first COMMIT that ends an attempt. Afterwards the executor still works.
    """
    reactions = [first_end]
    options["lease_seconds"] = lease_seconds
    async with (
        TcpProxy.before(executing.url) as proxy,
        engine_for(proxy.through(executing.url)) as engine,
    ):
        at_point(engine, ENDING, lambda: reactions and proxy.react(b"COMMIT", reactions.pop()))
        async with executing.executor("through", gate, engine=engine, **options):
            await gate.entered.acquire()
            yield proxy
            await executing.submit(job(MAIL, "afterwards"))
            await eventually(lambda: executing.all_in(JobState.SUCCEEDED), 20)
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


@pytest.mark.parametrize("handler", [MAIL, BOOK])
async def test_an_outage_longer_than_the_lease_ends_the_handler_and_the_job_runs_again(
    executing: Executing, handler: str
) -> None:
    await executing.submit(job(handler))
    gate = Gate()
    async with behind_proxy(executing, gate, lease_seconds=2) as proxy, outage(proxy):
        await eventually(lambda: gate.stops)
        gate.opened.set()
    assert gate.stops == [StopReason.LEASE_LOST]
    assert await executing.states(handler) == ("succeeded", ["interrupted", "succeeded"])
    first, _ = await executing.client.attempts(SCOPE, handler)
    assert first.error_code == LEASE_EXPIRED


@pytest.mark.parametrize("handler", [MAIL, BOOK])
@pytest.mark.parametrize("reaction", [Reaction.CUT_BEFORE_SERVER, Reaction.CUT_AFTER_REPLY])
async def test_a_commit_whose_answer_is_lost_ends_the_job_once(
    executing: Executing, handler: str, reaction: Reaction
) -> None:
    await executing.submit(job(handler))
    gate = Gate()
    async with behind_proxy(executing, gate, first_end=reaction, **QUIET) as proxy:
        gate.opened.set()
        await proxy.seen.wait()
        await eventually(lambda: executing.all_in(JobState.SUCCEEDED), 20)
    attempts = await executing.client.attempts(SCOPE, handler)
    assert attempts[-1].state is AttemptState.SUCCEEDED
    if reaction is Reaction.CUT_AFTER_REPLY or handler == MAIL:
        assert len(attempts) == len(executing.calls.of(handler)) == 1
