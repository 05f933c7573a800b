"""A host runs each delivery once and tells the broker what section 5 of the rules says, on every database."""

import asyncio
import contextlib
import time
from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import Connection, update
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.context import HandlerContext
from inbox.handlers import Consumer
from inbox.options import ConsumerOptions, InboxOptions
from inbox.store import InboxStore
from relay.broker import Disposition
from relay.options import RelayOptions
from tests.support.consuming import (
    LEASE,
    SHORT_LEASE,
    Hosting,
    OrderPlaced,
    Recorder,
    all_in_state,
    hosting,
    placed,
    receipt_states,
)
from tests.support.databases import create_tables
from tests.support.relaying import QUICK, inbox, metadata
from tests.support.waiting import eventually
from uow.backoff import Backoff
from uow.message import Message
from uow.sql.clock import DatabaseClock
from uow.sql.step import run_step

ACKNOWLEDGED = [Disposition.ACKNOWLEDGE]

# The same on every database, since only loops are at stake.
ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncEngine:
    await create_tables(engine, metadata)
    return engine


async def queue_of(hosting: Hosting) -> None:
    await eventually(lambda: hosting.broker.subscriptions)


async def record(engine: AsyncEngine, *messages: Message, consumer: str = "billing") -> None:
    """As `local:` hands over."""
    pairs = [(consumer, message) for message in messages]
    await run_step(engine, lambda c: InboxStore(inbox).record(c, pairs))


async def held_elsewhere(engine: AsyncEngine, message: Message, *, lease_seconds: float) -> None:
    """As a process that acquired it and now is busy with it, or has died."""
    store = InboxStore(inbox, options=InboxOptions(lease_seconds=lease_seconds))
    await run_step(engine, lambda c: store.acquire(c, "billing", [message]))


async def left_by_dead_processes(engine: AsyncEngine, message: Message, *, attempts: int) -> None:
    """As after `attempts` processes that died while they handled it, one after the other."""
    past = DatabaseClock().after(-1)
    died = (
        update(inbox)
        .where(inbox.c.message_id == message.id)
        .values(
            state="processing",
            lease_token=uuid4(),
            lease_expires_at=past,
            next_attempt_at=past,
            attempt_count=attempts,
            claim_count=attempts,
        )
    )

    def record_and_die(connection: Connection) -> None:
        InboxStore(inbox).record(connection, [("billing", message)])
        connection.execute(died)

    await run_step(engine, record_and_die)


async def test_each_delivery_is_handled_once_and_acknowledged(ready: AsyncEngine) -> None:
    recorder = Recorder()
    messages = [placed(order) for order in range(20)]
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(*messages)
        await eventually(lambda: len(running.queue.settled) == 20)
        assert await all_in_state(ready, "processed", messages)
    assert sorted(recorder.finished) == list(range(20))
    assert all(running.queue.dispositions(message) == ACKNOWLEDGED for message in messages)
    assert recorder.most_at_once <= 4
    assert running.queue.closed


async def test_a_duplicate_delivery_is_acknowledged_and_not_run(ready: AsyncEngine) -> None:
    recorder = Recorder()
    message = placed(1)
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED * 2)
    assert recorder.started == [1]


@ON_ONE_DATABASE
async def test_the_same_message_twice_in_one_prefetch_runs_once(ready: AsyncEngine) -> None:
    recorder = Recorder()
    message = placed(1)
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(message, message, message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED * 3)
    assert recorder.started == [1]


@ON_ONE_DATABASE
async def test_no_more_handlers_run_at_once_than_the_consumer_allows_and_the_rest_is_not_acquired(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder(options=ConsumerOptions(concurrency=2))
    recorder.hold.clear()
    messages = [placed(order) for order in range(6)]
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(*messages)
        await eventually(lambda: len(recorder.started) == 2)
        assert len(await receipt_states(ready)) == 2
        recorder.hold.set()
        await eventually(lambda: len(running.queue.settled) == 6)
    assert recorder.most_at_once == 2
    assert running.queue.most_outstanding <= 8


@ON_ONE_DATABASE
async def test_the_pump_and_the_deliveries_share_one_limit(ready: AsyncEngine) -> None:
    recorder = Recorder(options=ConsumerOptions(concurrency=2))
    recorder.hold.clear()
    handed, delivered = [placed(n) for n in range(3)], [placed(n) for n in range(3, 6)]
    await record(ready, *handed)
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(*delivered)
        await eventually(lambda: len(recorder.started) == 2)
        recorder.hold.set()
        await eventually(lambda: all_in_state(ready, "processed", handed + delivered))
    assert recorder.most_at_once == 2


async def test_a_failed_attempt_is_acknowledged_when_it_is_stored_and_retried_by_the_pump(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    recorder.fail.add(1)
    message = placed(1)
    options = replace(LEASE, backoff=Backoff(initial_seconds=0.2, maximum_seconds=0.2))
    async with hosting(ready, recorder.consumer, options=options) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
        assert await receipt_states(ready) == {message.id: "failed"}
        recorder.fail.clear()
        await eventually(lambda: all_in_state(ready, "processed", [message]))
    assert recorder.started == [1, 1]


@ON_ONE_DATABASE
async def test_what_cannot_be_decoded_is_rejected_with_a_record_and_harms_no_neighbour(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    message = placed(1)
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put_raw(
            b"{", {}, {"content_type": "application/json", "message_id": "m-1"}, handle="bad"
        )
        await running.queue.put(message)
        await eventually(lambda: len(running.queue.settled) == 2)
    assert running.queue.dispositions("bad") == [Disposition.REJECT]
    assert running.queue.dispositions(message) == ACKNOWLEDGED
    assert [(each.consumer, each.error_code, each.message_id) for each in running.rejected] == [
        ("billing", "contract", "m-1")
    ]
    assert recorder.finished == [1]


async def test_an_id_known_with_other_content_is_rejected_with_a_record_and_its_receipt_untouched(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    message = placed(1)
    other = replace(message, payload=message.payload.replace('"order":1', '"order":2'))
    assert other != message
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
        await running.queue.put(other)
        await eventually(lambda: running.queue.dispositions(message) == [*ACKNOWLEDGED, Disposition.REJECT])
    assert [each.error_code for each in running.rejected] == ["conflicting_content"]
    assert recorder.started == [1]
    assert await receipt_states(ready) == {message.id: "processed"}


@ON_ONE_DATABASE
async def test_a_message_of_an_unknown_version_is_kept_as_a_dead_receipt_not_in_the_dead_queue(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    message = replace(placed(1), contract_version=7)
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
    assert await receipt_states(ready) == {message.id: "dead_lettered"}
    assert running.rejected == []


async def test_a_busy_delivery_is_acknowledged_after_the_wait_and_taken_over_when_its_holder_died(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    message = placed(1)
    await held_elsewhere(ready, message, lease_seconds=1.5)
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        began = time.monotonic()
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
        assert time.monotonic() - began >= LEASE.busy_wait_limit_seconds
        assert recorder.started == []
        await eventually(lambda: all_in_state(ready, "processed", [message]))
    assert recorder.started == [1]


@ON_ONE_DATABASE
async def test_a_busy_delivery_whose_holder_finishes_in_time_is_a_duplicate(ready: AsyncEngine) -> None:
    recorder = Recorder()
    message = placed(1)
    await held_elsewhere(ready, message, lease_seconds=60)
    async with hosting(
        ready, recorder.consumer, options=replace(LEASE, busy_wait_limit_seconds=3600)
    ) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: running.queue.outstanding == 1)
        finished = update(inbox).values(state="processed", next_attempt_at=None, lease_token=None)
        await run_step(ready, lambda c: c.execute(finished))
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
    assert recorder.started == []


@ON_ONE_DATABASE
async def test_receipts_handed_over_locally_are_run_as_soon_as_the_pump_is_woken(ready: AsyncEngine) -> None:
    recorder = Recorder()
    message = placed(1)
    slow = RelayOptions(poll_interval_seconds=3600)
    async with hosting(ready, recorder.consumer, relay=slow, with_broker=False) as running:
        await eventually(lambda: running.host.health[0].last_tick is not None)
        await record(ready, message)
        running.wake()
        await eventually(lambda: all_in_state(ready, "processed", [message]))


@ON_ONE_DATABASE
async def test_a_pump_that_nobody_wakes_still_polls(ready: AsyncEngine) -> None:
    recorder = Recorder()
    async with hosting(ready, recorder.consumer, with_broker=False):
        await record(ready, placed(1))
        await eventually(lambda: recorder.finished == [1])


async def test_two_hosts_share_the_receipts_and_run_each_once(ready: AsyncEngine) -> None:
    first, second = Recorder(), Recorder()
    messages = [placed(order) for order in range(40)]
    await record(ready, *messages)
    async with (
        hosting(ready, first.consumer, with_broker=False),
        hosting(ready, second.consumer, with_broker=False),
    ):
        await eventually(lambda: all_in_state(ready, "processed", messages))
    assert sorted(first.finished + second.finished) == list(range(40))


@ON_ONE_DATABASE
async def test_stop_lets_running_handlers_end_and_gives_back_what_was_not_begun(ready: AsyncEngine) -> None:
    recorder = Recorder(options=ConsumerOptions(concurrency=1))
    recorder.hold.clear()
    messages = [placed(order) for order in range(3)]
    running = Hosting(ready, recorder.consumer)
    task = asyncio.create_task(running.host.run())
    await queue_of(running)
    await running.queue.put(*messages)
    await eventually(lambda: recorder.started == [0])
    running.host.stop()
    await asyncio.sleep(0)
    recorder.hold.set()
    await asyncio.wait_for(task, 10)
    assert recorder.finished == [0]
    assert running.queue.dispositions(messages[0]) == ACKNOWLEDGED
    for message in messages[1:]:
        assert running.queue.dispositions(message) in ([], [Disposition.RETURN])
    assert running.queue.outstanding == 0
    assert await receipt_states(ready) == {messages[0].id: "processed"}


@ON_ONE_DATABASE
async def test_after_the_grace_period_handlers_are_cancelled_and_their_deliveries_go_back(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    recorder.hold.clear()
    message = placed(1)
    running = Hosting(
        ready, recorder.consumer, relay=RelayOptions(poll_interval_seconds=0.1, stop_grace_seconds=0.1)
    )
    task = asyncio.create_task(running.host.run())
    await queue_of(running)
    await running.queue.put(message)
    await eventually(lambda: recorder.started == [1])
    running.host.stop()
    await asyncio.wait_for(task, 10)
    assert recorder.cancelled == [1]
    assert running.queue.dispositions(message) == [Disposition.RETURN]
    assert await receipt_states(ready) == {message.id: "received"}


@ON_ONE_DATABASE
async def test_an_attempt_cut_short_by_a_stop_does_not_count(ready: AsyncEngine) -> None:
    recorder = Recorder()
    recorder.hold.clear()
    await record(ready, placed(1))
    relay = RelayOptions(poll_interval_seconds=0.1, stop_grace_seconds=0.05)
    for _ in range(3):
        async with hosting(ready, recorder.consumer, relay=relay, with_broker=False):
            count = len(recorder.started)
            await eventually(lambda count=count: len(recorder.started) > count)
    recorder.hold.set()
    async with hosting(ready, recorder.consumer, with_broker=False):
        await eventually(lambda: recorder.finished == [1])


async def test_a_message_whose_process_dies_each_time_is_dead_lettered_and_its_neighbours_are_not(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    killer, healthy = placed(1), placed(2)
    await left_by_dead_processes(ready, killer, attempts=11)
    await record(ready, healthy)
    async with hosting(ready, recorder.consumer, with_broker=False):
        await eventually(lambda: _states(ready, {killer.id: "dead_lettered", healthy.id: "processed"}))
    assert recorder.started == [2]


async def test_a_suspect_waits_for_running_handlers_and_then_runs_while_nothing_else_does(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder(options=ConsumerOptions(concurrency=4))
    recorder.hold.clear()
    suspect, late = placed(0), placed(4)
    early = [placed(order) for order in range(1, 4)]
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(*early)
        await eventually(lambda: sorted(recorder.started) == [1, 2, 3])
        await left_by_dead_processes(ready, suspect, attempts=2)
        slots = running.host._consumers[0].slots
        await eventually(lambda: slots._paused)
        await running.queue.put(late)
        await eventually(lambda: running.queue.outstanding == 4)
        for _ in range(5):  # time enough for a delivery to be acquired, if anyone did
            assert late.id not in await receipt_states(ready)
            assert 0 not in recorder.started
        recorder.hold.set()
        await eventually(lambda: all_in_state(ready, "processed", [suspect, *early, late]))
    assert recorder.started[3:] == [0, 4]
    assert not slots._paused


@ON_ONE_DATABASE
async def test_a_delivery_of_a_suspect_is_acknowledged_and_left_to_the_pump(ready: AsyncEngine) -> None:
    recorder = Recorder()
    suspect = placed(0)
    await left_by_dead_processes(ready, suspect, attempts=2)
    slow = replace(QUICK, poll_interval_seconds=0.5)
    async with hosting(ready, recorder.consumer, relay=slow) as running:
        await queue_of(running)
        await running.queue.put(suspect)
        await eventually(lambda: running.queue.dispositions(suspect) == ACKNOWLEDGED)
        await eventually(lambda: all_in_state(ready, "processed", [suspect]))
    assert recorder.started == [0]


async def test_a_handler_slower_than_its_lease_runs_once_while_its_heartbeat_is_healthy(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder()
    recorder.hold.clear()
    message = placed(1)
    async with (
        hosting(ready, recorder.consumer, options=SHORT_LEASE) as running,
        hosting(ready, recorder.consumer, options=SHORT_LEASE, with_broker=False),
    ):
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: recorder.started == [1])
        began = time.monotonic()
        await eventually(lambda: time.monotonic() - began > 1.5 * SHORT_LEASE.lease_seconds)
        recorder.hold.set()
        await eventually(lambda: all_in_state(ready, "processed", [message]))
    assert recorder.started == [1]


async def test_a_handler_that_blocks_the_event_loop_past_its_lease_runs_once(ready: AsyncEngine) -> None:
    consumer = Consumer("billing")
    runs: list[int] = []

    @consumer.handles(OrderPlaced)
    async def block(event: OrderPlaced, context: object) -> None:
        runs.append(event.order)
        time.sleep(1.3)  # the renewal lives in a thread of its own

    message = placed(1)
    async with hosting(ready, consumer, options=SHORT_LEASE) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
        assert await all_in_state(ready, "processed", [message])
    assert runs == [1]


@ON_ONE_DATABASE
async def test_a_handler_that_is_cancelled_by_its_timeout_leaves_a_failure_to_be_retried(
    ready: AsyncEngine,
) -> None:
    recorder = Recorder(options=ConsumerOptions(processing_timeout_seconds=0.1))
    recorder.hold.clear()
    message = placed(1)
    async with hosting(ready, recorder.consumer) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
        assert await receipt_states(ready) == {message.id: "failed"}
    assert recorder.cancelled == [1]


@ON_ONE_DATABASE
async def test_a_handler_that_ignores_its_cancellation_is_given_up_and_blocks_nobody(
    ready: AsyncEngine,
) -> None:
    options = ConsumerOptions(processing_timeout_seconds=0.05, max_retry_attempts=0, concurrency=1)
    consumer, released = Consumer("billing", options=options), asyncio.Event()
    ended: list[int] = []

    @consumer.handles(OrderPlaced)
    async def stubborn(event: OrderPlaced, context: HandlerContext) -> None:
        while event.order == 0 and not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        ended.append(event.order)

    stuck, neighbour = placed(0), placed(1)
    async with hosting(ready, consumer, options=SHORT_LEASE) as running:
        await queue_of(running)
        await running.queue.put(stuck, neighbour)
        await eventually(lambda: running.queue.dispositions(neighbour) == ACKNOWLEDGED)
        assert running.queue.dispositions(stuck) == ACKNOWLEDGED
        assert await receipt_states(ready) == {stuck.id: "dead_lettered", neighbour.id: "processed"}
    assert ended == [1]
    released.set()
    await eventually(lambda: ended == [1, 0])
    assert (await receipt_states(ready))[stuck.id] == "dead_lettered"


async def test_a_handler_whose_lease_was_taken_is_cancelled_and_writes_nothing(ready: AsyncEngine) -> None:
    recorder = Recorder()
    recorder.hold.clear()
    message = placed(1)
    async with hosting(ready, recorder.consumer, options=SHORT_LEASE) as running:
        await queue_of(running)
        await running.queue.put(message)
        await eventually(lambda: recorder.started == [1])
        thief = uuid4()
        stolen = update(inbox).values(lease_token=thief, claim_count=1)
        await run_step(ready, lambda c: c.execute(stolen))
        await eventually(lambda: recorder.cancelled == [1])
        await eventually(lambda: running.queue.dispositions(message) == ACKNOWLEDGED)
        assert await receipt_states(ready) == {message.id: "processing"}
    assert recorder.finished == []


async def _states(engine: AsyncEngine, expected: dict[object, str]) -> bool:
    return await receipt_states(engine) == expected
