"""The relay publishes what is stored, whatever the broker says, on every database."""

import asyncio
import logging
from collections.abc import Sequence
from uuid import uuid4

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox.options import OutboxOptions
from outbox.store import OutboxStore
from relay.broker import PublishResult, Verdict
from relay.options import RelayOptions
from relay.publishing.publisher import OutboxRelay
from tests.support.databases import create_tables
from tests.support.relaying import (
    CONFIRMED,
    UNKNOWN,
    UNSENT,
    Gate,
    ScriptedOutlet,
    all_published,
    fill,
    make_relay,
    metadata,
    outbox,
    outbox_rows,
    outbox_states,
    running,
    set_columns,
)
from tests.support.statements import recorded_statements
from tests.support.waiting import eventually
from uow.backoff import Backoff
from uow.message import Message
from uow.sql.clock import DatabaseClock
from uow.sql.step import run_step
from uow.wake import WakeSignal

SMALL = OutboxOptions(batch_size=10, lease_seconds=30)

# The same on every database, since only loops are at stake.
ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncEngine:
    await create_tables(engine, metadata)
    return engine


async def test_everything_stored_is_sent_once_in_order_and_published(ready: AsyncEngine) -> None:
    messages = await fill(ready, 45)
    outlet = ScriptedOutlet()
    relay = make_relay(ready, outlet, outbox_options=SMALL)
    async with running(relay):
        await eventually(lambda: all_published(ready, 45))
    assert outlet.sent == [message.id for message in messages]
    assert max(len(batch) for batch in outlet.batches) == 10
    assert outlet.closed


async def test_two_relays_at_once_share_the_work_and_send_nothing_twice(ready: AsyncEngine) -> None:
    messages = await fill(ready, 120)
    outlets = [ScriptedOutlet(), ScriptedOutlet()]
    async with running(*(make_relay(ready, outlet, outbox_options=SMALL) for outlet in outlets)):
        await eventually(lambda: all_published(ready, 120))
    assert sorted(outlets[0].sent + outlets[1].sent) == sorted(message.id for message in messages)


async def test_while_one_batch_is_confirmed_the_next_is_claimed_and_the_last_is_settled(
    ready: AsyncEngine,
) -> None:
    await fill(ready, 30)
    gate = Gate()
    outlet = ScriptedOutlet(gate)
    slow_polls = RelayOptions(poll_interval_seconds=60)
    async with running(make_relay(ready, outlet, outbox_options=SMALL, options=slow_polls)):
        await gate.entered.acquire()
        await eventually(lambda: _is(ready, publishing=20, pending=10))
        gate.open()
        await gate.entered.acquire()
        await eventually(lambda: _is(ready, published=10, publishing=20))
        assert len(outlet.batches) == 2
        gate.open(2)
        await eventually(lambda: all_published(ready, 30))


@ON_ONE_DATABASE
async def test_no_more_than_three_batches_are_ever_in_hand(ready: AsyncEngine) -> None:
    await fill(ready, 60)
    gate = Gate()
    async with running(make_relay(ready, ScriptedOutlet(gate), outbox_options=SMALL)):
        for _ in range(6):
            await gate.entered.acquire()
            assert (await outbox_states(ready))["publishing"] <= 30
            gate.open()
        await eventually(lambda: all_published(ready, 60))


async def test_each_verdict_ends_in_its_own_state_and_one_bad_message_harms_no_other(
    ready: AsyncEngine,
) -> None:
    messages = await fill(ready, 5)
    results = [
        CONFIRMED,
        PublishResult(Verdict.RETRY, "nack", "the queue is full"),
        PublishResult(Verdict.REFUSED, "unroutable", "no queue is bound"),
        PublishResult(Verdict.REFUSED, "contract"),
        CONFIRMED,
    ]
    outlet = ScriptedOutlet(lambda batch: _answer([results[messages.index(each)] for each in batch]))
    async with running(make_relay(ready, outlet, outbox_options=SMALL)):
        await eventually(lambda: _is(ready, published=2, dead_lettered=2, pending=1))
    rows = await outbox_rows(ready)
    found = [(rows[m.id]["state"], rows[m.id]["failure_count"], rows[m.id]["error_code"]) for m in messages]
    assert found == [
        ("published", 0, None),
        ("pending", 1, "nack"),
        ("dead_lettered", 1, "unroutable"),
        ("dead_lettered", 1, "contract"),
        ("published", 0, None),
    ]


@ON_ONE_DATABASE
async def test_a_message_turned_away_is_tried_again_and_dead_lettered_after_the_last_further_try(
    ready: AsyncEngine,
) -> None:
    bad, good = await fill(ready, 2)
    nack = PublishResult(Verdict.RETRY, "nack")
    outlet = ScriptedOutlet(lambda batch: _answer([nack if each == bad else CONFIRMED for each in batch]))
    options = OutboxOptions(
        batch_size=10, max_retry_attempts=2, backoff=Backoff(initial_seconds=0.01, maximum_seconds=0.02)
    )
    async with running(make_relay(ready, outlet, outbox_options=options)):
        await eventually(lambda: _is(ready, published=1, dead_lettered=1))
    assert outlet.sent.count(bad.id) == 3
    assert outlet.sent.count(good.id) == 1


@ON_ONE_DATABASE
async def test_while_the_broker_is_away_nothing_is_claimed_and_no_attempt_is_counted(
    ready: AsyncEngine,
) -> None:
    await fill(ready, 20)
    outlet = ScriptedOutlet()
    outlet.reachable = False
    relay = make_relay(ready, outlet, outbox_options=SMALL)
    async with running(relay):
        with recorded_statements(ready) as statements:
            await eventually(lambda: outlet.checks >= 3)
        assert statements == []
        assert not relay.broker_usable
        outlet.reachable = True
        await eventually(lambda: all_published(ready, 20))
    assert relay.broker_usable
    assert {row["failure_count"] for row in (await outbox_rows(ready)).values()} == {0}


@ON_ONE_DATABASE
async def test_what_surely_did_not_leave_is_given_back_at_once_and_costs_nothing(ready: AsyncEngine) -> None:
    messages = await fill(ready, 10)
    away = asyncio.Event()
    outlet = ScriptedOutlet(lambda batch: _answer([CONFIRMED if away.is_set() else UNSENT] * len(batch)))
    async with running(make_relay(ready, outlet, outbox_options=OutboxOptions(lease_seconds=3600))):
        await eventually(lambda: len(outlet.batches) >= 2)
        away.set()
        await eventually(lambda: all_published(ready, 10))
    rows = await outbox_rows(ready)
    assert {(rows[m.id]["failure_count"], rows[m.id]["claim_count"]) for m in messages} == {(0, 0)}


@ON_ONE_DATABASE
async def test_after_an_outage_one_message_is_tried_before_the_rest_follows(ready: AsyncEngine) -> None:
    await fill(ready, 20)
    answers = iter([UNSENT, CONFIRMED])
    outlet = ScriptedOutlet(lambda batch: _answer([next(answers, CONFIRMED)] * len(batch)))
    async with running(make_relay(ready, outlet, outbox_options=SMALL)):
        await eventually(lambda: all_published(ready, 20))
    assert [len(batch) for batch in outlet.batches][:3] == [10, 1, 10]


@ON_ONE_DATABASE
async def test_what_may_have_arrived_waits_as_long_as_its_lease_would_have_lasted(ready: AsyncEngine) -> None:
    doubtful, sure = await fill(ready, 2)
    outlet = ScriptedOutlet(
        lambda batch: _answer([UNKNOWN if each == doubtful else CONFIRMED for each in batch])
    )
    async with running(make_relay(ready, outlet, outbox_options=OutboxOptions(lease_seconds=600))):
        await eventually(lambda: _is(ready, pending=1, published=1))
        row = (await outbox_rows(ready))[doubtful.id]
        wait = row["next_attempt_at"] - row["created_at"]  # type: ignore[operator]
        assert 590 < wait.total_seconds() < 660
        assert (row["failure_count"], row["claim_count"]) == (0, 0)
    assert outlet.sent == [doubtful.id, sure.id]


@ON_ONE_DATABASE
async def test_an_idle_relay_is_woken_by_a_commit_long_before_it_would_poll(ready: AsyncEngine) -> None:
    wake = WakeSignal()
    outlet = ScriptedOutlet()
    relay = OutboxRelay(
        ready, OutboxStore(outbox), outlet, wake=wake, options=RelayOptions(poll_interval_seconds=3600)
    )
    async with running(relay):
        await eventually(lambda: relay.health.last_tick is not None)
        await fill(ready, 1)
        wake()
        await eventually(lambda: all_published(ready, 1))


@ON_ONE_DATABASE
async def test_a_relay_that_nobody_wakes_still_polls(ready: AsyncEngine) -> None:
    relay = make_relay(ready, ScriptedOutlet())
    async with running(relay):
        await eventually(lambda: relay.health.last_tick is not None)
        await fill(ready, 1)
        await eventually(lambda: all_published(ready, 1))


async def test_stop_settles_the_batch_in_hand_and_gives_back_what_was_not_sent(ready: AsyncEngine) -> None:
    await fill(ready, 30)
    gate = Gate()
    outlet = ScriptedOutlet(gate)
    relay = make_relay(ready, outlet, outbox_options=SMALL, options=RelayOptions(poll_interval_seconds=60))
    task = asyncio.create_task(relay.run())
    await gate.entered.acquire()
    await eventually(lambda: _is(ready, publishing=20, pending=10))
    relay.stop()
    gate.open()
    await asyncio.wait_for(task, 10)
    assert await outbox_states(ready) == {"published": 10, "pending": 20}
    assert len(outlet.batches) == 1
    rows = await outbox_rows(ready)
    assert all(row["lease_token"] is None for row in rows.values())


@ON_ONE_DATABASE
async def test_stop_ends_in_the_grace_period_even_when_the_broker_never_answers(
    ready: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(ready, 5)
    gate = Gate()
    relay = make_relay(
        ready,
        ScriptedOutlet(gate),
        outbox_options=SMALL,
        options=RelayOptions(poll_interval_seconds=0.1, stop_grace_seconds=0.2),
    )
    task = asyncio.create_task(relay.run())
    await gate.entered.acquire()
    relay.stop()
    await asyncio.wait_for(task, 5)
    assert await outbox_states(ready) == {"publishing": 5}
    assert "did not end in time" in caplog.text


async def test_a_batch_that_takes_longer_than_its_lease_is_renewed_and_stays_ours(ready: AsyncEngine) -> None:
    await fill(ready, 10)
    gate = Gate()
    outlet = ScriptedOutlet(gate)
    options = OutboxOptions(batch_size=10, lease_seconds=1)
    other = ScriptedOutlet()
    async with running(make_relay(ready, outlet, outbox_options=options)):
        await gate.entered.acquire()
        expiry = min(row["lease_expires_at"] for row in (await outbox_rows(ready)).values())  # type: ignore[type-var]
        async with running(make_relay(ready, other, outbox_options=options)):
            await eventually(lambda: _leased_beyond(ready, expiry, seconds=1.2))
        gate.open()
        await eventually(lambda: all_published(ready, 10))
    assert other.sent == []


async def test_rows_lost_to_another_owner_are_counted_and_logged(
    ready: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(ready, 5)
    gate = Gate()
    async with running(
        make_relay(ready, ScriptedOutlet(gate), outbox_options=OutboxOptions(lease_seconds=60))
    ):
        await gate.entered.acquire()
        await set_columns(ready, lease_token=uuid4())
        with caplog.at_level(logging.WARNING):
            gate.open()
            await eventually(lambda: "5 of 5 events were no longer ours" in caplog.text)
    assert await outbox_states(ready) == {"publishing": 5}


async def test_a_suspect_is_sent_alone_and_its_neighbours_are_not_held_up(ready: AsyncEngine) -> None:
    suspect = (await fill(ready, 1))[0]
    await set_columns(ready, claim_count=3)
    healthy = await fill(ready, 20)
    outlet = ScriptedOutlet()
    async with running(make_relay(ready, outlet, outbox_options=SMALL)):
        await eventually(lambda: all_published(ready, 21))
    assert [suspect] in outlet.batches
    assert {message.id for message in healthy} | {suspect.id} == set(outlet.sent)


async def test_a_row_whose_relay_died_again_and_again_is_dead_lettered_and_the_rest_is_not(
    ready: AsyncEngine,
) -> None:
    await fill(ready, 1)
    await set_columns(ready, claim_count=13, state="publishing", lease_token=uuid4())
    await fill(ready, 5)
    async with running(make_relay(ready, ScriptedOutlet(), outbox_options=SMALL)):
        await eventually(lambda: _is(ready, published=5, dead_lettered=1))
    codes = {row["error_code"] for row in (await outbox_rows(ready)).values()}
    assert codes == {None, "relay_died"}


@ON_ONE_DATABASE
async def test_an_error_of_the_outlet_is_logged_and_leaves_the_rows_to_their_leases(
    ready: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    bad = (await fill(ready, 1))[0]

    async def explode(batch: Sequence[Message]) -> Sequence[PublishResult]:
        if bad in batch:
            raise ZeroDivisionError("a defect")
        return [CONFIRMED] * len(batch)

    relay = make_relay(ready, ScriptedOutlet(explode), outbox_options=OutboxOptions(lease_seconds=1))
    async with running(relay):
        await eventually(lambda: relay.health.restarts >= 1)
        await fill(ready, 5)
        await eventually(lambda: _is(ready, published=5, publishing=1))
    assert "ZeroDivisionError" in caplog.text
    assert bad.payload not in caplog.text


async def test_a_large_batch_takes_no_statement_for_each_row(ready: AsyncEngine) -> None:
    await fill(ready, 144)  # two batches: a relay begins with 16 rows and then takes up to 128
    outlet = ScriptedOutlet()
    relay = make_relay(ready, outlet, options=RelayOptions(poll_interval_seconds=3600))
    with recorded_statements(ready) as statements:
        async with running(relay):
            await eventually(lambda: len(outlet.sent) == 144)
    assert await all_published(ready, 144)
    assert len(statements) <= 12


async def _answer(results: Sequence[PublishResult]) -> Sequence[PublishResult]:
    return results


async def _is(engine: AsyncEngine, **states: int) -> bool:
    return await outbox_states(engine) == states


async def _leased_beyond(engine: AsyncEngine, expiry: object, *, seconds: float) -> bool:
    rows = (await outbox_rows(engine)).values()
    return all(
        row["lease_expires_at"] is not None and (row["lease_expires_at"] - expiry).total_seconds() > seconds  # type: ignore[operator]
        for row in rows
    )


async def test_a_relay_killed_ten_times_dead_letters_nothing_healthy(ready: AsyncEngine) -> None:
    await fill(ready, 5)
    for _ in range(10):
        await _kill_while_sending(ready, SMALL)
    async with running(make_relay(ready, ScriptedOutlet(), outbox_options=SMALL)):
        await eventually(lambda: all_published(ready, 5))
    assert {row["failure_count"] for row in (await outbox_rows(ready)).values()} == {0}


async def test_a_message_that_kills_its_relay_each_time_is_buried_and_all_others_are_published(
    ready: AsyncEngine,
) -> None:
    messages = await fill(ready, 5)
    killer = messages[2]
    for _ in range(40):
        if (await outbox_states(ready))["dead_lettered"]:
            break
        await _kill_while_sending(ready, SMALL, killer=killer)
    async with running(make_relay(ready, ScriptedOutlet(), outbox_options=SMALL)):
        await eventually(lambda: _is(ready, published=4, dead_lettered=1))
    row = (await outbox_rows(ready))[killer.id]
    assert row["error_code"] == "relay_died"


async def _kill_while_sending(
    engine: AsyncEngine, options: OutboxOptions, *, killer: Message | None = None
) -> None:
    """Run a relay until it has a batch (with `killer` in it) in hand; then it is gone, and time passes."""
    met = asyncio.Event()

    async def die(messages: Sequence[Message]) -> Sequence[PublishResult]:
        if killer is None or killer in messages:
            met.set()
            await asyncio.Event().wait()
        return [CONFIRMED] * len(messages)

    relay = make_relay(engine, ScriptedOutlet(die), outbox_options=options)
    relay._suspects_due_at = 0.0
    task = asyncio.create_task(relay.run())
    await eventually(lambda: _met_or_buried(engine, met))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await _expire_leases(engine)


async def _met_or_buried(engine: AsyncEngine, met: asyncio.Event) -> bool:
    return met.is_set() or (await outbox_states(engine))["dead_lettered"] == 1


async def _expire_leases(engine: AsyncEngine) -> None:
    past = DatabaseClock().after(-1)
    expired = (
        update(outbox)
        .where(outbox.c.state == "publishing")
        .values(lease_expires_at=past, next_attempt_at=past)
    )
    await run_step(engine, lambda c: c.execute(expired))
