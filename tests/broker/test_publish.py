"""Publishing gives each message its own verdict, on every kind of broker."""

import asyncio
import contextlib

from relay.broker import Publisher, Verdict
from relay.wire import decode_wire
from tests.broker.conftest import over_all_kinds
from tests.support.brokers import BrokerGround, hex_ids, ids, make_message, publish, receive


@over_all_kinds
async def test_a_confirmed_message_arrives_as_it_was_stored(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = await ground.declare("rechnung-é😀", "bestellung.größe.v1")
    message = make_message(
        "bestellung.größe",
        correlation_id="Korrelation-ß-😀",
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        tracestate="vendor=ü",
    )
    await publish(publisher, message)
    subscription = await ground.broker.open_subscription(binding, prefetch=10)
    [delivery] = await receive(subscription, 1)
    assert not delivery.redelivered
    assert decode_wire(delivery.body, delivery.content_type, delivery.headers, delivery.properties) == message


@over_all_kinds
async def test_an_unbound_message_is_refused_and_its_neighbours_are_confirmed(
    ground: BrokerGround, publisher: Publisher
) -> None:
    await ground.declare()
    batch = [make_message(), make_message("nobody.listens"), make_message(), make_message("nobody.listens")]
    results = await publisher.publish(batch)
    assert [(result.verdict, result.error_code) for result in results] == [
        (Verdict.CONFIRMED, None),
        (Verdict.REFUSED, "unroutable"),
        (Verdict.CONFIRMED, None),
        (Verdict.REFUSED, "unroutable"),
    ]


async def test_a_message_without_a_wire_form_is_refused_alone(
    ground: BrokerGround, publisher: Publisher
) -> None:
    await ground.declare()
    bad = make_message(payload='{"x":"\ud800 secret"}')
    results = await publisher.publish([make_message(), bad, make_message()])
    assert [result.verdict for result in results] == [Verdict.CONFIRMED, Verdict.REFUSED, Verdict.CONFIRMED]
    assert results[1].error_code == "contract"
    assert "secret" not in str(results[1].detail)


@over_all_kinds
async def test_without_an_exchange_everything_is_unsent_and_goes_out_once_it_is_there(
    ground: BrokerGround, publisher: Publisher
) -> None:
    batch = [make_message(), make_message()]
    if ground.kind.keeps_bindings:
        results = await publisher.publish(batch)
        assert {(result.verdict, result.error_code) for result in results} == {
            (Verdict.UNSENT, "exchange_missing")
        }
    binding = await ground.declare()
    await publish(publisher, *batch)
    subscription = await ground.broker.open_subscription(binding, prefetch=10)
    assert sorted(ids(await receive(subscription, 2))) == sorted(hex_ids(batch))


@over_all_kinds
async def test_every_bound_consumer_gets_its_own_copy(ground: BrokerGround, publisher: Publisher) -> None:
    bindings = [await ground.declare("billing"), await ground.declare("shipping")]
    message = make_message()
    await publish(publisher, message)
    for binding in bindings:
        subscription = await ground.broker.open_subscription(binding, prefetch=10)
        assert ids(await receive(subscription, 1)) == [message.id.hex]


async def test_a_body_of_one_mebibyte_passes(ground: BrokerGround, publisher: Publisher) -> None:
    binding = await ground.declare()
    message = make_message(payload='{"x":"' + "ö" * 524_284 + '"}')
    assert len(message.payload.encode()) == 1_048_576
    await publish(publisher, message)
    subscription = await ground.broker.open_subscription(binding, prefetch=1)
    [delivery] = await receive(subscription, 1)
    assert delivery.body == message.payload.encode()


async def test_many_messages_of_one_batch_arrive_once_and_in_order(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = await ground.declare()
    count = ground.kind.many
    batch = [make_message() for _ in range(count)]
    await publish(publisher, *batch)
    subscription = await ground.broker.open_subscription(binding, prefetch=count)
    received = ids(await receive(subscription, count))
    assert sorted(received) == sorted(hex_ids(batch))
    if ground.kind.ordered:
        assert received == hex_ids(batch)


async def test_batches_of_concurrent_callers_are_sent_one_after_the_other(
    ground: BrokerGround, publisher: Publisher
) -> None:
    await ground.declare()
    batches = [[make_message(), make_message("nobody.listens")] for _ in range(5)]
    answers = await asyncio.gather(*(publisher.publish(batch) for batch in batches))
    for answer in answers:
        assert [result.verdict for result in answer] == [Verdict.CONFIRMED, Verdict.REFUSED]


async def test_a_cancelled_caller_leaves_the_publisher_usable(
    ground: BrokerGround, publisher: Publisher
) -> None:
    await ground.declare()
    await publish(publisher, make_message())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await publisher.publish([make_message() for _ in range(50)])
    await publish(publisher, make_message())


async def test_an_empty_batch_needs_no_broker(ground: BrokerGround, publisher: Publisher) -> None:
    assert list(await publisher.publish([])) == []


async def test_a_closed_publisher_sends_nothing_and_says_so(
    ground: BrokerGround, publisher: Publisher
) -> None:
    await ground.declare()
    await publisher.close()
    await publisher.close()
    [result] = await publisher.publish([make_message()])
    assert (result.verdict, result.error_code) == (Verdict.UNSENT, "closed")


async def test_closing_waits_for_the_batch_in_hand(ground: BrokerGround, publisher: Publisher) -> None:
    await ground.declare()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(publisher.publish([make_message() for _ in range(100)]))
        await asyncio.sleep(0)
        await publisher.close()
    assert {result.verdict for result in task.result()} == {Verdict.CONFIRMED}
