"""What RabbitMQ does to a consumer, and how the consumer comes back."""

import pytest

from relay.broker import Disposition
from relay.kombu_broker.acknowledgement import AckPlan, OutstandingTags
from tests.support.brokers import BrokerGround, ids, make_message, nothing_comes, publish, receive


async def test_a_channel_closed_by_the_broker_is_replaced_and_its_deliveries_come_again(
    rabbit: BrokerGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """406, as after the delivery acknowledgement timeout; provoked with a tag that never was."""
    binding = await rabbit.declare()
    publisher = await rabbit.broker.open_publisher()
    await publish(publisher, make_message(), make_message())
    subscription = await rabbit.broker.open_subscription(binding, prefetch=10)
    deliveries = await receive(subscription, 2)
    acknowledge, wrong = OutstandingTags.acknowledge, [AckPlan(None, [4711])]
    monkeypatch.setattr(
        OutstandingTags,
        "acknowledge",
        lambda self, tags: wrong.pop() if wrong else acknowledge(self, tags),
    )
    subscription.settle(deliveries[0], Disposition.ACKNOWLEDGE)
    again = await receive(subscription, 2)
    assert sorted(ids(again)) == sorted(ids(deliveries))
    for delivery in deliveries:  # stale
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    for delivery in again:
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    await subscription.close()
    last = await rabbit.broker.open_subscription(binding, prefetch=10)
    await nothing_comes(last)


async def test_a_second_word_in_the_same_moment_does_not_count(rabbit: BrokerGround) -> None:
    binding = await rabbit.declare()
    publisher = await rabbit.broker.open_publisher()
    await publish(publisher, make_message())
    subscription = await rabbit.broker.open_subscription(binding, prefetch=10)
    [delivery] = await receive(subscription, 1)
    for disposition in (Disposition.ACKNOWLEDGE, Disposition.REJECT, Disposition.RETURN):
        subscription.settle(delivery, disposition)
    await subscription.close()
    assert await rabbit.broker.count_dead(["billing"]) == {"billing": 0}
    assert subscription.closed
