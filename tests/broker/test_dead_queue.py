"""Dead queues can be counted, listed, requeued and dropped, and lose nothing."""

import pytest

from relay.broker import Disposition, Publisher
from relay.wire import decode_wire
from tests.broker.conftest import over_all_kinds, with_quorum
from tests.support.brokers import CONSUMER, BrokerGround, ids, make_message, publish, receive
from tests.support.waiting import eventually
from uow.message import Message


@pytest.fixture
async def dead(ground: BrokerGround, publisher: Publisher) -> list[Message]:
    """Three messages in the dead queue, the first dead first."""
    binding = await ground.declare()
    messages = [make_message(correlation_id=f"ü{number}") for number in range(3)]
    subscription = await ground.broker.open_subscription(binding, prefetch=1)
    for number, message in enumerate(messages, start=1):
        await publish(publisher, message)
        subscription.settle((await receive(subscription, 1))[0], Disposition.REJECT)
        await eventually(lambda number=number: _counted(ground, number))
    await subscription.close()
    return messages


async def test_it_is_counted_by_consumer(ground: BrokerGround, dead: list[Message]) -> None:
    assert await ground.broker.count_dead([CONSUMER, "never-declared"]) == {
        CONSUMER: len(dead),
        "never-declared": 0,
    }


@with_quorum
async def test_listing_shows_metadata_and_leaves_everything_in_its_place(
    ground: BrokerGround, dead: list[Message]
) -> None:
    for _ in range(2):
        listed = await ground.broker.list_dead(CONSUMER, limit=2)
        if ground.kind.ordered:
            assert [each.message_id for each in listed] == [message.id.hex for message in dead[:2]]
        assert [each.position for each in listed] == [1, 2]
        assert {each.reason for each in listed} == {"rejected"}
        assert {each.contract_name for each in listed} == {"orders.placed"}
        assert {each.body_bytes for each in listed} == {len(dead[0].payload.encode())}
        await eventually(lambda: _counted(ground, 3))
    assert "Zoë" not in repr(await ground.broker.list_dead(CONSUMER, limit=10))


@over_all_kinds
async def test_requeued_messages_reach_the_consumer_as_they_were(
    ground: BrokerGround, dead: list[Message]
) -> None:
    assert await ground.broker.requeue_dead(CONSUMER, limit=2) == 2
    await eventually(lambda: _counted(ground, 1))
    subscription = await ground.broker.open_subscription(ground.binding(), prefetch=5)
    received = await receive(subscription, 2)
    wanted = {message.id.hex: message for message in dead}
    for delivery in received:
        decoded = decode_wire(delivery.body, delivery.content_type, delivery.headers, delivery.properties)
        assert decoded == wanted[decoded.id.hex]
        assert not [name for name in delivery.headers if name.startswith(("x-", "ms-dead"))]
    if ground.kind.ordered:
        assert ids(received) == [message.id.hex for message in dead[:2]]


async def test_requeueing_more_than_there_are_moves_those_there_are(
    ground: BrokerGround, dead: list[Message]
) -> None:
    assert await ground.broker.requeue_dead(CONSUMER, limit=100) == len(dead)
    assert await ground.broker.requeue_dead(CONSUMER, limit=100) == 0


@with_quorum
async def test_dropped_messages_are_gone(ground: BrokerGround, dead: list[Message]) -> None:
    assert await ground.broker.drop_dead(CONSUMER, limit=1) == 1
    await eventually(lambda: _counted(ground, 2))
    assert await ground.broker.drop_dead(CONSUMER, limit=100) == 2
    await eventually(lambda: _counted(ground, 0))


async def test_a_dead_queue_that_was_never_declared_is_empty(ground: BrokerGround) -> None:
    ground.binding()
    assert await ground.broker.list_dead(CONSUMER, limit=5) == []
    assert await ground.broker.requeue_dead(CONSUMER, limit=5) == 0
    assert await ground.broker.drop_dead(CONSUMER, limit=5) == 0


async def _counted(ground: BrokerGround, count: int) -> bool:
    return await ground.broker.count_dead([CONSUMER]) == {CONSUMER: count}
