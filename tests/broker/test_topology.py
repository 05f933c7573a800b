"""The topology is declared by an explicit act and only looked at otherwise."""

from pathlib import Path
from uuid import uuid4

import pytest

from relay.broker import ConsumerBinding, TopologyError
from tests.broker.conftest import over_all_kinds
from tests.support.brokers import (
    CONSUMER,
    KEY,
    MEMORY,
    RABBITMQ,
    REDIS,
    BrokerGround,
    BrokerKind,
    broker_ground,
    make_message,
)


async def test_looking_creates_nothing(ground: BrokerGround) -> None:
    for _ in range(2):
        parts = await ground.broker.check_topology([ground.binding()])
        assert {part.status for part in parts} == {"missing"}
        assert not any(part.stands for part in parts)


@over_all_kinds
async def test_declaring_creates_what_is_missing_and_leaves_the_rest(ground: BrokerGround) -> None:
    first = await ground.broker.declare_topology([ground.binding()])
    assert {part.status for part in first} <= {"declared", "present"}
    both = [ground.binding(), ground.binding("shipping")]
    second = await ground.broker.declare_topology(both)
    queues = {part.name: part.status for part in second if part.kind == "queue"}
    assert queues[ground.queue()] == "present"
    if ground.kind.keeps_bindings:
        assert queues[ground.queue("shipping")] == "declared"
    assert all(part.stands for part in await ground.broker.check_topology(both))
    assert {part.kind for part in second} == {"exchange", "queue", "binding"}


async def test_another_process_sees_what_was_declared(ground: BrokerGround) -> None:
    binding = await ground.declare()
    other = ground.another()
    assert all(part.stands for part in await other.check_topology([binding]))
    publisher = await other.open_publisher()
    [result] = await publisher.publish([make_message()])
    assert result.verdict.value == "confirmed"
    await other.close()


async def test_names_that_cannot_be_are_refused_before_anything_is_declared(ground: BrokerGround) -> None:
    for binding in (
        ConsumerBinding(consumer="é" * 112, routing_keys=frozenset({KEY})),
        ConsumerBinding(consumer="billing.dead", routing_keys=frozenset({KEY})),
        ConsumerBinding(consumer=CONSUMER, routing_keys=frozenset({"k" * 255})),
    ):
        with pytest.raises(TopologyError):
            await ground.broker.declare_topology([ground.binding(), binding])
    parts = await ground.broker.check_topology([ground.binding()])
    assert {part.status for part in parts} == {"missing"}


@pytest.mark.parametrize("kind", [MEMORY, REDIS, RABBITMQ], ids=lambda kind: kind.name)
async def test_a_queue_name_of_240_bytes_works_and_one_more_does_not(
    kind: BrokerKind, tmp_path: Path
) -> None:
    prefix = f"test-{uuid4().hex}".ljust(39, "p")
    async with broker_ground(kind, tmp_path, queue_prefix=prefix) as ground:
        await ground.declare("c" * 200)
        assert await ground.broker.count_dead(["c" * 200]) == {"c" * 200: 0}
        with pytest.raises(TopologyError, match="queue name must have at most 240 UTF-8 bytes, not 241"):
            await ground.another(queue_prefix=f"{prefix}p").declare_topology([ground.binding("c" * 200)])


async def test_a_queue_that_differs_is_left_as_it_is(rabbit: BrokerGround) -> None:
    rabbit.consumers.add(CONSUMER)
    await rabbit.administer(
        lambda channel: channel.queue_declare(rabbit.queue(), durable=True, auto_delete=False)
    )
    for act in (rabbit.broker.check_topology, rabbit.broker.declare_topology):
        parts = {(part.kind, part.name): part for part in await act([rabbit.binding()])}
        queue = parts["queue", rabbit.queue()]
        assert queue.status == "differs"
        assert "x-dead-letter-exchange" in queue.detail
        assert not queue.stands


async def test_a_binding_on_rabbitmq_is_unknown_until_it_is_declared(rabbit: BrokerGround) -> None:
    binding = await rabbit.declare()
    parts = await rabbit.broker.check_topology([binding])
    assert {part.status for part in parts if part.kind == "binding"} == {"unknown"}
    assert all(part.stands for part in parts)


async def test_the_connection_can_be_checked(ground: BrokerGround) -> None:
    await ground.broker.check_connection()
