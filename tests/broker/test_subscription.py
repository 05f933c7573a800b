"""Deliveries reach asyncio and are settled from there, on every kind of broker."""

import asyncio
import threading

import pytest

from relay.broker import BrokerUnavailableError, Disposition, Publisher, TopologyError
from relay.kombu_broker import virtual_consuming
from tests.broker.conftest import over_all_kinds, with_quorum
from tests.support.brokers import (
    CONSUMER,
    FILESYSTEM,
    RABBITMQ,
    RABBITMQ_QUORUM,
    REDIS,
    BrokerGround,
    hex_ids,
    ids,
    make_message,
    nothing_comes,
    publish,
    receive,
)
from tests.support.waiting import eventually


@with_quorum
async def test_what_is_acknowledged_does_not_come_back(ground: BrokerGround, publisher: Publisher) -> None:
    binding = await ground.declare()
    await publish(publisher, *[make_message() for _ in range(20)])
    subscription = await ground.broker.open_subscription(binding, prefetch=20)
    for delivery in await receive(subscription, 20):
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    await subscription.close()
    again = await ground.broker.open_subscription(binding, prefetch=20)
    await eventually(lambda: again.healthy)
    await nothing_comes(again)


@over_all_kinds
async def test_what_is_not_settled_comes_back_after_closing(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = await ground.declare()
    batch = [make_message() for _ in range(6)]
    await publish(publisher, *batch)
    subscription = await ground.broker.open_subscription(binding, prefetch=10)
    deliveries = await receive(subscription, 6)
    for delivery in deliveries[:2]:
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    await subscription.close()
    again = await ground.broker.open_subscription(binding, prefetch=10)
    returned = await receive(again, 4)
    assert sorted(ids(returned)) == sorted(set(hex_ids(batch)) - set(ids(deliveries[:2])))
    assert all(delivery.redelivered for delivery in returned)


@with_quorum
async def test_a_returned_delivery_comes_again_and_only_to_its_own_queue(
    ground: BrokerGround, publisher: Publisher
) -> None:
    billing, shipping = await ground.declare("billing"), await ground.declare("shipping")
    message = make_message()
    await publish(publisher, message)
    others = await ground.broker.open_subscription(shipping, prefetch=10)
    others.settle((await receive(others, 1))[0], Disposition.ACKNOWLEDGE)
    subscription = await ground.broker.open_subscription(billing, prefetch=10)
    subscription.settle((await receive(subscription, 1))[0], Disposition.RETURN)
    [again] = await receive(subscription, 1)
    assert (ids([again]), again.redelivered) == ([message.id.hex], True)
    assert "redelivered" not in again.headers  # kombu's own mark
    await nothing_comes(others)


async def test_a_rejected_delivery_is_kept_in_the_dead_queue(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = await ground.declare()
    good, bad = make_message(), make_message()
    await publish(publisher, good, bad)
    subscription = await ground.broker.open_subscription(binding, prefetch=10)
    for delivery in await receive(subscription, 2):
        rejected = ids([delivery]) == [bad.id.hex]
        subscription.settle(delivery, Disposition.REJECT if rejected else Disposition.ACKNOWLEDGE)
    await subscription.close()
    await eventually(lambda: _dead_count(ground, 1))
    [dead] = await ground.broker.list_dead(CONSUMER, limit=10)
    assert dead.message_id == bad.id.hex


@with_quorum
async def test_never_more_than_prefetch_are_out(ground: BrokerGround, publisher: Publisher) -> None:
    binding = await ground.declare()
    await publish(publisher, *[make_message() for _ in range(9)])
    subscription = await ground.broker.open_subscription(binding, prefetch=3)
    first = await receive(subscription, 3)
    await nothing_comes(subscription)
    for delivery in first[:2]:
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    await receive(subscription, 2)
    await nothing_comes(subscription)


async def test_receive_returns_no_more_than_its_limit(ground: BrokerGround, publisher: Publisher) -> None:
    binding = await ground.declare()
    await publish(publisher, *[make_message() for _ in range(5)])
    subscription = await ground.broker.open_subscription(binding, prefetch=5)
    assert len(await subscription.receive(1)) == 1
    assert len(await receive(subscription, 4)) == 4


@with_quorum
async def test_acknowledging_with_gaps_settles_exactly_what_was_asked(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = await ground.declare()
    batch = [make_message() for _ in range(12)]
    await publish(publisher, *batch)
    subscription = await ground.broker.open_subscription(binding, prefetch=12)
    deliveries = await receive(subscription, 12)
    kept = {0, 5, 6, 11}
    for position in (3, 1, 2, 4, 10, 9, 8, 7):
        subscription.settle(deliveries[position], Disposition.ACKNOWLEDGE)
        subscription.settle(deliveries[position], Disposition.RETURN)  # a second time does nothing
    await subscription.close()
    again = await ground.broker.open_subscription(binding, prefetch=12)
    returned = ids(await receive(again, len(kept)))
    assert sorted(returned) == sorted(ids([deliveries[position] for position in kept]))
    await nothing_comes(again)


@with_quorum
async def test_settling_from_many_threads_is_safe(ground: BrokerGround, publisher: Publisher) -> None:
    binding = await ground.declare()
    count = 200
    await publish(publisher, *[make_message() for _ in range(count)])
    subscription = await ground.broker.open_subscription(binding, prefetch=count)
    deliveries = await receive(subscription, count, timeout=20)

    def settle(part: int) -> None:
        for delivery in deliveries[part::4]:
            subscription.settle(delivery, Disposition.ACKNOWLEDGE)

    threads = [threading.Thread(target=settle, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await subscription.close()
    again = await ground.broker.open_subscription(binding, prefetch=count)
    await eventually(lambda: again.healthy)
    await nothing_comes(again)


@with_quorum
async def test_stop_receiving_gives_back_what_nobody_received_and_lets_the_rest_be_settled(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = await ground.declare()
    batch = [make_message() for _ in range(10)]
    await publish(publisher, *batch)
    subscription = await ground.broker.open_subscription(binding, prefetch=10)
    in_hand = await receive(subscription, 4)
    await subscription.stop_receiving()
    assert not subscription.healthy
    await nothing_comes(subscription)
    other = await ground.broker.open_subscription(binding, prefetch=10)
    others = await receive(other, 6)
    assert sorted(ids(others) + ids(in_hand)) == sorted(hex_ids(batch))
    for delivery in in_hand:
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    await subscription.close()
    await nothing_comes(other)


async def test_receive_raises_once_the_subscription_is_closed(ground: BrokerGround) -> None:
    binding = await ground.declare()
    subscription = await ground.broker.open_subscription(binding, prefetch=1)
    waiting = asyncio.create_task(subscription.receive(1))
    await eventually(lambda: subscription.healthy)
    await subscription.close()
    await subscription.close()
    with pytest.raises(BrokerUnavailableError, match="closed"):
        await waiting
    assert not subscription.healthy


async def test_a_queue_that_is_missing_makes_it_unhealthy_until_it_is_declared(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = ground.binding()
    subscription = await ground.broker.open_subscription(binding, prefetch=1)
    await nothing_comes(subscription)
    assert not subscription.healthy
    await ground.declare()
    await eventually(lambda: subscription.healthy)
    message = make_message()
    await publish(publisher, message)
    assert ids(await receive(subscription, 1)) == [message.id.hex]


@pytest.mark.parametrize("kind", [FILESYSTEM, REDIS, RABBITMQ, RABBITMQ_QUORUM], ids=lambda kind: kind.name)
async def test_a_queue_deleted_and_declared_again_is_consumed_again(
    ground: BrokerGround, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_consuming, "_BINDING_CHECK_SECONDS", 0.05)
    bindings = [await ground.declare(), await ground.declare("shipping", "other.v1")]
    await publish(publisher, make_message())
    subscription = await ground.broker.open_subscription(bindings[0], prefetch=10)
    [lost] = await receive(subscription, 1)
    await ground.delete_queue()
    await eventually(lambda: not subscription.healthy)
    [result] = await publisher.publish([make_message()])
    assert result.error_code == "unroutable"
    subscription.settle(lost, Disposition.ACKNOWLEDGE)
    await ground.declare()
    await eventually(lambda: subscription.healthy)
    message = make_message()
    await publish(publisher, message)
    [delivery] = await receive(subscription, 1)
    assert ids([delivery]) == [message.id.hex]


async def test_two_subscriptions_share_one_queue(ground: BrokerGround, publisher: Publisher) -> None:
    binding = await ground.declare()
    first = await ground.broker.open_subscription(binding, prefetch=5)
    second = await ground.broker.open_subscription(binding, prefetch=5)
    await eventually(lambda: first.healthy and second.healthy)
    batch = [make_message() for _ in range(10)]
    await publish(publisher, *batch)
    received = [*await receive(first, 5), *await receive(second, 5)]
    assert sorted(ids(received)) == sorted(hex_ids(batch))


async def test_a_consumer_whose_queue_cannot_be_named_is_refused(ground: BrokerGround) -> None:
    for consumer in ("x" * 201, "billing.dead", "", "nul\x00"):
        with pytest.raises(TopologyError, match="consumer"):
            await ground.broker.open_subscription(ground.binding(consumer), prefetch=1)
        ground.consumers.discard(consumer)


async def test_prefetch_must_be_positive(ground: BrokerGround) -> None:
    with pytest.raises(ValueError, match="prefetch must be at least 1, not 0"):
        await ground.broker.open_subscription(ground.binding(), prefetch=0)


async def _dead_count(ground: BrokerGround, count: int) -> bool:
    return await ground.broker.count_dead([CONSUMER]) == {CONSUMER: count}
