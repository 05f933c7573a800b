"""`local:` hands events over to the inbox in the transaction that settles the outbox, on every database."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import Connection, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.store import InboxStore
from outbox.options import OutboxOptions
from outbox.settlement import Settlement, SettleReport
from outbox.store import OutboxStore
from relay.broker import ConsumerBinding
from relay.local_broker import LocalOutlet
from relay.publishing.publisher import OutboxRelay
from tests.support.databases import create_tables
from tests.support.relaying import (
    QUICK,
    all_published,
    fill,
    inbox,
    make_message,
    metadata,
    outbox,
    outbox_rows,
    outbox_states,
    running,
)
from tests.support.statements import recorded_statements
from tests.support.telemetry import recorded_telemetry
from tests.support.waiting import eventually
from uow.message import Message
from uow.sql.step import run_step

PLACED = frozenset({"orders.placed.v1"})
BINDINGS = (
    ConsumerBinding(consumer="billing", routing_keys=PLACED),
    ConsumerBinding(consumer="shipping", routing_keys=PLACED | {"orders.paid.v1"}),
)


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncEngine:
    await create_tables(engine, metadata)
    return engine


class Woken:
    """Counts how often the pumps were woken."""

    calls = 0

    def __call__(self) -> None:
        self.calls += 1


def local_relay(
    engine: AsyncEngine,
    *,
    bindings: Sequence[ConsumerBinding] = BINDINGS,
    woken: Woken | None = None,
    store: OutboxStore | None = None,
) -> OutboxRelay:
    outlet = LocalOutlet(InboxStore(inbox), bindings, wake=woken or Woken())
    return OutboxRelay(engine, store or OutboxStore(outbox), outlet, options=QUICK)


async def receipts(engine: AsyncEngine) -> Counter[tuple[UUID, str, str]]:
    query = select(inbox.c.message_id, inbox.c.consumer, inbox.c.state)
    rows = await run_step(engine, lambda c: c.execute(query).all())
    return Counter((row[0], row[1], row[2]) for row in rows)


async def test_each_subscribed_consumer_gets_one_receipt_of_each_event(ready: AsyncEngine) -> None:
    messages = await fill(ready, 30)
    paid = await fill(ready, 1, name="orders.paid")
    woken = Woken()
    async with running(local_relay(ready, woken=woken)):
        await eventually(lambda: all_published(ready, 31))
    assert await receipts(ready) == Counter(
        [(message.id, consumer, "received") for message in messages for consumer in ("billing", "shipping")]
        + [(paid[0].id, "shipping", "received")]
    )
    assert woken.calls >= 1


async def test_the_receipt_holds_the_message_as_it_was_stored(ready: AsyncEngine) -> None:
    message = replace(
        make_message(), correlation_id="c-1", traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    )
    await run_step(ready, lambda c: OutboxStore(outbox).append(c, [message]))
    async with running(local_relay(ready)):
        await eventually(lambda: all_published(ready, 1))
    claimed = await run_step(ready, lambda c: InboxStore(inbox).claim(c, ["billing"], limit=5))
    assert [receipt.message for receipt in claimed] == [message]


async def test_an_event_that_nobody_is_subscribed_to_is_dead_lettered_as_unroutable(
    ready: AsyncEngine,
) -> None:
    await fill(ready, 2)
    stray = (await fill(ready, 1, name="orders.lost"))[0]
    async with running(local_relay(ready)):
        await eventually(lambda: _is(ready, published=2, dead_lettered=1))
    row = (await outbox_rows(ready))[stray.id]
    assert row["error_code"] == "unroutable"
    assert "orders.lost.v1" in str(row["error_detail"])


async def test_an_id_stored_with_other_content_is_refused_and_its_receipt_untouched(
    ready: AsyncEngine,
) -> None:
    changed, sound = await fill(ready, 2)
    await run_step(
        ready,
        lambda c: InboxStore(inbox).record(c, [("billing", replace(changed, payload='{"other":1}'))]),
    )
    async with running(local_relay(ready)):
        await eventually(lambda: _is(ready, published=1, dead_lettered=1))
    row = (await outbox_rows(ready))[changed.id]
    assert row["error_code"] == "conflicting_content"
    assert "billing" in str(row["error_detail"])
    stored = select(inbox.c.payload).where(inbox.c.message_id == changed.id, inbox.c.consumer == "billing")
    assert await run_step(ready, lambda c: c.execute(stored).scalar_one()) == '{"other":1}'
    assert (sound.id, "billing", "received") in await receipts(ready)


async def test_handing_over_again_is_absorbed_whatever_became_of_the_receipt(ready: AsyncEngine) -> None:
    message = (await fill(ready, 1))[0]
    with recorded_telemetry() as recorded:
        await _hand_over_twice(ready, message)
    assert await receipts(ready) == {(message.id, name, "processed"): 1 for name in ("billing", "shipping")}
    counted = [
        (point.attributes["consumer"], point.value)
        for point in recorded.points()
        if point.metric == "messaging.operations" and point.attributes["outcome"] == "duplicate"
    ]
    assert sorted(counted) == [("billing", 1), ("shipping", 1)]


async def _hand_over_twice(ready: AsyncEngine, message: Message) -> None:
    async with running(local_relay(ready)):
        await eventually(lambda: all_published(ready, 1))
        await run_step(
            ready, lambda c: c.execute(update(inbox).values(state="processed", next_attempt_at=None))
        )
        await run_step(ready, lambda c: OutboxStore(outbox).schedule_again(c, message))
        await eventually(lambda: all_published(ready, 1))


async def test_when_the_settlement_fails_no_receipt_is_kept(ready: AsyncEngine) -> None:
    class FailingOnce(OutboxStore):
        failures = 0

        def settle(
            self, connection: Connection, token: UUID, settlements: Sequence[Settlement]
        ) -> SettleReport:
            found = connection.execute(select(inbox.c.message_id)).all()
            assert len(found) == 6  # written in this transaction, or they would be there twice
            if not self.failures:
                self.failures += 1
                raise ConnectionResetError("the database goes away before COMMIT")
            return super().settle(connection, token, settlements)

    messages = await fill(ready, 3)
    store = FailingOnce(outbox)
    async with running(local_relay(ready, store=store)):
        await eventually(lambda: store.failures == 1)
        await eventually(lambda: all_published(ready, 3))
    assert {key[0] for key in await receipts(ready)} == {message.id for message in messages}
    assert len(await receipts(ready)) == 6


async def test_two_relays_hand_over_everything_exactly_once(ready: AsyncEngine) -> None:
    await fill(ready, 60)
    store = OutboxStore(outbox, options=OutboxOptions(batch_size=5))
    async with running(local_relay(ready, store=store), local_relay(ready, store=store)):
        await eventually(lambda: all_published(ready, 60))
    assert set((await receipts(ready)).values()) == {1}
    assert len(await receipts(ready)) == 120


async def test_a_hand_over_takes_no_statement_for_each_event(ready: AsyncEngine) -> None:
    await fill(ready, 144)  # two batches: a relay begins with 16 rows and then takes up to 128
    relay = local_relay(ready)
    with recorded_statements(ready) as statements:
        async with running(relay):
            await eventually(lambda: all_published(ready, 144))
            looks = sum("SELECT outbox_message.state" in each for each in statements)
    assert len(statements) - looks <= 24


async def _is(engine: AsyncEngine, **states: int) -> bool:
    return await outbox_states(engine) == states


async def test_a_relay_killed_in_the_middle_of_a_hand_over_keeps_all_or_nothing(ready: AsyncEngine) -> None:
    await fill(ready, 20)
    relay = local_relay(ready)
    task = asyncio.create_task(relay.run())
    await eventually(lambda: _touched(ready))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    published = (await outbox_states(ready))["published"]
    assert len(await receipts(ready)) == published * 2


async def _touched(engine: AsyncEngine) -> bool:
    return (await outbox_states(engine))["pending"] < 20
