"""On SQLite, where one transaction writes at a time, a slow handler hurts only itself."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.context import HandlerContext
from inbox.handlers import Consumer
from inbox.options import InboxOptions
from relay.app import App
from relay.consuming.single_writer import fit_to_lease, slots_for
from tests.support.apps import Placed, place, ready_app, running
from tests.support.waiting import eventually
from uow.sql.dialect import POSTGRESQL, SQLITE


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
async def test_a_handler_that_hangs_with_the_write_lock_costs_no_other_message_an_attempt(
    engine: AsyncEngine,
) -> None:
    work, audit, done = Consumer("work"), Consumer("audit"), list[int]()

    @work.handles(Placed)
    async def hang_at_zero(event: Placed, context: HandlerContext) -> None:
        await context.session.execute(text("select 1"))  # begins IMMEDIATE: the lock is ours
        if event.number == 0:
            await asyncio.sleep(60)
        done.append(event.number)

    @audit.handles(Placed)
    async def note(event: Placed, context: HandlerContext) -> None:
        await context.session.execute(text("select 1"))

    once = {"inbox": {"max_retry_attempts": 0, "lease_seconds": 2}}
    app, _ = await ready_app(engine, consumers=[work, audit], options=once)

    async with running(app.run):
        await place(app, *range(8))
        await eventually(lambda: sorted(done) == [1, 2, 3, 4, 5, 6, 7])
        await eventually(lambda: _has_failed(app))
    (failed,) = (await app.failed.list()).messages
    assert (failed.consumer, failed.error_code, failed.attempts) == ("work", "timeout", 1)
    await app.close()


async def _has_failed(app: App) -> bool:
    return await app.failed.count() > 0


def test_one_writer_means_one_slot_and_a_handler_that_ends_before_its_lease() -> None:
    options = InboxOptions(lease_seconds=60, processing_timeout_seconds=120)
    assert (slots_for(POSTGRESQL), fit_to_lease(options, POSTGRESQL)) == (None, options)
    one = slots_for(SQLITE)
    assert one is not None
    assert one.limit == 1
    assert fit_to_lease(options, SQLITE) == replace(options, processing_timeout_seconds=54)
    quick = replace(options, processing_timeout_seconds=5)
    assert fit_to_lease(quick, SQLITE) == quick
