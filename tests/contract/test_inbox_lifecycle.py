"""A real killer: a handler that blocks the event loop for longer than its lease; by the database's clock."""

import asyncio
import time

from inbox.context import HandlerContext
from inbox.options import InboxOptions
from inbox.outcome import ConsumeOutcome
from tests.support.inbox import Inbox
from tests.support.receiving import Bench, OrderPlaced, order, pay
from uow.sql.clock import DatabaseClock
from uow.sql.step import run_step

pytest_plugins = ("tests.support.inbox_fixture",)


async def test_a_handler_that_really_blocks_past_its_lease_leaves_nothing(inbox: Inbox, bench: Bench) -> None:
    inbox.options = InboxOptions(lease_seconds=1)
    inbox.store = inbox.store_with(DatabaseClock())
    runs = 0

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        nonlocal runs
        runs += 1
        await pay(event, context)
        if runs == 1:
            time.sleep(1.01)

    message = order()
    receiver = bench.receiver(handler)
    (answer,) = await run_step(inbox.engine, lambda c: inbox.store.acquire(c, "billing", [message]))
    assert answer.receipt is not None
    assert await receiver.handle(answer.receipt) is ConsumeOutcome.LEASE_LOST
    assert await bench.payments() == []
    (again,) = await inbox.claim("billing")
    outcomes = await asyncio.gather(receiver.handle(again), receiver.handle(answer.receipt))
    assert outcomes[1] is not ConsumeOutcome.CONSUMED
    assert outcomes[0] is ConsumeOutcome.CONSUMED or await bench.payments() == []
