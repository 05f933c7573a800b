"""A database that goes away in the middle: the receipt tells what happened, and nothing runs twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import async_sessionmaker

from inbox import bookkeeping
from inbox.attempt import Attempt
from inbox.context import HandlerContext
from inbox.options import InboxOptions
from inbox.outcome import ConsumeOutcome
from inbox.receipt import ReceiptKey
from tests.support.databases import engine_for
from tests.support.proxy import Reaction, TcpProxy
from tests.support.receiving import Bench, OrderPlaced, order, pay
from uow.message import Message
from uow.outcome import Reject
from uow.unit import SelfManagedUnitOfWork
from uow.unit_errors import CommitOutcomeUnknownError

pytest_plugins = ("tests.support.inbox_fixture",)

SERVERS = pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookkeeping, "_PAUSES_SECONDS", (0.01, 0.02, 0.05, 0.1))


async def state_of(bench: Bench, message: Message) -> tuple[object, object]:
    row = await bench.inbox.row(ReceiptKey(message.id, "billing"))
    return row["state"], row["error_code"]


@contextlib.asynccontextmanager
async def units_through_a_proxy(bench: Bench) -> AsyncIterator[TcpProxy]:
    """The units of the bench reach the database through the proxy; the bookkeeping goes straight."""
    url = bench.inbox.engine.url.render_as_string(hide_password=False)
    async with TcpProxy.before(url) as proxy, engine_for(proxy.through(url)) as engine:
        async with engine.connect():
            pass  # connected and in the pool: what it says on connecting has COMMIT in it on MariaDB
        bench.sessions = async_sessionmaker(engine)
        yield proxy


@SERVERS
async def test_a_commit_whose_answer_was_lost_is_found_to_have_happened(
    bench: Bench, counted: list[str]
) -> None:
    message = order()
    async with units_through_a_proxy(bench) as proxy:
        proxy.react(b"COMMIT", Reaction.CUT_AFTER_REPLY)
        assert await bench.run(pay, message) is ConsumeOutcome.CONSUMED
        assert proxy.seen.is_set()
    assert await state_of(bench, message) == ("processed", None)
    assert (await bench.payments(), await bench.enqueued()) == ([1], 1)
    assert counted == ["consumed"]


@SERVERS
async def test_a_commit_that_never_arrived_is_found_not_to_have_happened(
    bench: Bench, counted: list[str]
) -> None:
    message = order()
    async with units_through_a_proxy(bench) as proxy:
        proxy.react(b"COMMIT", Reaction.CUT_BEFORE_SERVER)
        assert await bench.run(pay, message) is ConsumeOutcome.CONSUME_FAILED
    assert await state_of(bench, message) == ("failed", "database_lost")
    assert (await bench.payments(), await bench.enqueued()) == ([], 0)
    assert counted == ["consume_failed"]
    bench.inbox.clock.advance(900)
    bench.sessions = async_sessionmaker(bench.inbox.engine)
    assert await bench.run(pay, message) is ConsumeOutcome.CONSUMED
    assert await bench.payments() == [1]


@SERVERS
async def test_a_connection_lost_under_the_handler_is_a_failed_attempt(bench: Bench) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        proxy.cut()
        await context.session.flush()
        await pay(OrderPlaced(number=2), context)

    async with units_through_a_proxy(bench) as proxy:
        assert await bench.run(handler, message) is ConsumeOutcome.CONSUME_FAILED
    assert await state_of(bench, message) == ("failed", "handler_error")
    assert await bench.payments() == []


class TornUnit(SelfManagedUnitOfWork):
    """Its commit happens or not, and the answer is lost."""

    commits = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None and not self.commits:
            lost = ConnectionError("lost")
            await super().__aexit__(type(lost), lost, None)
        else:
            await super().__aexit__(kind, error, traceback)
        if error is None:
            raise CommitOutcomeUnknownError(None, ())


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("moment", ["held", "taken over"])
async def test_an_unknown_outcome_is_decided_by_the_receipt(bench: Bench, commits: bool, moment: str) -> None:
    message = order()

    class Unit(TornUnit):
        async def __aexit__(self, *leaving: object) -> None:
            try:
                await super().__aexit__(*leaving)  # type: ignore[arg-type]
            finally:
                if moment == "taken over":
                    bench.inbox.clock.advance(60)
                    await bench.inbox.claim("billing")

    Unit.commits = commits
    outcome = await bench.run(pay, message, unit=lambda: Unit(bench.sessions, bench.participants_of_unit()))
    if commits:
        assert outcome is ConsumeOutcome.CONSUMED
        assert await state_of(bench, message) == ("processed", None)
    elif moment == "held":
        assert outcome is ConsumeOutcome.CONSUME_FAILED
        assert await state_of(bench, message) == ("failed", "database_lost")
    else:
        assert outcome is ConsumeOutcome.LEASE_LOST
        assert await state_of(bench, message) == ("processing", None)


async def test_commits_that_are_lost_every_time_end_in_a_dead_letter(bench: Bench) -> None:
    message = order()
    bench.options = InboxOptions(max_retry_attempts=0)

    class Unit(TornUnit):
        commits = False

    outcome = await bench.run(pay, message, unit=lambda: Unit(bench.sessions, bench.participants_of_unit()))
    assert outcome is ConsumeOutcome.DEAD_LETTER
    assert await state_of(bench, message) == ("dead_lettered", "database_lost")


async def test_a_cancellation_during_the_commit_lets_it_finish(bench: Bench, counted: list[str]) -> None:
    message = order()
    attempt = Attempt(await bench.inbox.acquired("billing", message))
    task = asyncio.create_task(bench.receiver(pay).handle(attempt))
    hook = bench.inbox.engine.sync_engine
    event.listen(hook, "commit", lambda _: task.cancel(), once=True)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert attempt.outcome is ConsumeOutcome.CONSUMED
    assert counted == ["consumed"]
    assert await state_of(bench, message) == ("processed", None)
    assert await bench.payments() == [1]


@SERVERS
async def test_a_failure_that_cannot_be_recorded_is_left_to_the_lease(
    bench: Bench, counted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    message = order()
    url = bench.inbox.engine.url.render_as_string(hide_password=False)

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        raise Reject("no")

    async with TcpProxy.before(url) as proxy, engine_for(proxy.through(url)) as away:
        proxy.refusing = True
        outcome = await bench.run(handler, message, engine=away)
    assert outcome is ConsumeOutcome.CONSUME_FAILED
    assert counted == ["consume_failed"]
    assert await state_of(bench, message) == ("processing", None)
    assert "left to its lease" in caplog.text
    bench.inbox.clock.advance(60)
    assert [receipt.attempt for receipt in await bench.inbox.claim("billing")] == [2]


@SERVERS
async def test_a_short_outage_while_recording_is_bridged(bench: Bench) -> None:
    message = order()
    url = bench.inbox.engine.url.render_as_string(hide_password=False)

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        raise Reject("no")

    async with TcpProxy.before(url) as proxy, engine_for(proxy.through(url)) as away:
        async with away.connect():
            pass  # a pooled connection that is then found dead
        proxy.cut()
        proxy.refusing = True
        asyncio.get_running_loop().call_later(0.02, setattr, proxy, "refusing", False)
        assert await bench.run(handler, message, engine=away) is ConsumeOutcome.DEAD_LETTER
    assert await state_of(bench, message) == ("dead_lettered", "rejected")


@SERVERS
async def test_a_cancelled_run_ends_also_when_the_database_is_away(bench: Bench, counted: list[str]) -> None:
    message, running = order(), asyncio.Event()
    url = bench.inbox.engine.url.render_as_string(hide_password=False)

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        running.set()
        await asyncio.Event().wait()

    async with TcpProxy.before(url) as proxy, engine_for(proxy.through(url)) as away:
        proxy.refusing = True
        attempt = Attempt(await bench.inbox.acquired("billing", message))
        task = asyncio.create_task(bench.receiver(handler, engine=away).handle(attempt))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert attempt.outcome is ConsumeOutcome.CANCELLED
    assert counted == ["cancelled"]
    assert await state_of(bench, message) == ("processing", None)
