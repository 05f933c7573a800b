"""What befalls a whole RabbitMQ node: a memory alarm, a restart, and deliveries held too long."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from relay.broker import BrokerUnavailableError, Disposition, Verdict
from relay.kombu_broker import TlsOptions
from tests.support.broker_node import DELIVERY_TIMEOUT_SECONDS, RabbitNode, rabbit_node
from tests.support.brokers import (
    RABBITMQ,
    BrokerGround,
    BrokerKind,
    broker_ground,
    hex_ids,
    ids,
    make_message,
    publish,
    receive,
)
from tests.support.waiting import eventually

CONFIRM_TIMEOUT_SECONDS = 1.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    yield from rabbit_node(tmp_path_factory.mktemp("rabbitmq"))


@pytest.fixture
def kind(node: RabbitNode) -> BrokerKind:
    return RABBITMQ


@pytest.fixture
async def ground(node: RabbitNode, kind: BrokerKind, tmp_path: Path) -> AsyncIterator[BrokerGround]:
    async with broker_ground(
        kind, tmp_path, url=node.url, confirm_timeout_seconds=CONFIRM_TIMEOUT_SECONDS, heartbeat_seconds=1.0
    ) as ground:
        yield ground


async def test_a_memory_alarm_holds_messages_back_and_refuses_none(
    node: RabbitNode, ground: BrokerGround
) -> None:
    await ground.declare()
    standing = await ground.broker.open_publisher()
    await publish(standing, make_message())
    await asyncio.to_thread(node.control, "set_vm_memory_high_watermark", "0.0000001")
    fresh = await ground.broker.open_publisher()
    began = time.monotonic()
    first = [result.verdict for result in await fresh.publish([make_message() for _ in range(20)])]
    assert first == [Verdict.UNKNOWN] + [Verdict.UNSENT] * 19  # one tries, the rest wait
    second = await fresh.publish([make_message() for _ in range(20)])
    assert {(result.verdict, result.error_code) for result in second} == {(Verdict.UNSENT, "broker_blocked")}
    assert time.monotonic() - began < 2 * CONFIRM_TIMEOUT_SECONDS + 1
    on_the_standing_one = await standing.publish([make_message() for _ in range(20)])
    assert {result.verdict for result in on_the_standing_one} <= {Verdict.UNKNOWN, Verdict.UNSENT}
    waiting = asyncio.ensure_future(fresh.publish([make_message()]))
    await asyncio.to_thread(node.control, "set_vm_memory_high_watermark", "0.4")
    await asyncio.wait([waiting])
    await publish(fresh, make_message())
    await publish(standing, make_message())


async def test_a_restart_of_the_broker_loses_nothing_and_needs_no_help(
    node: RabbitNode, ground: BrokerGround
) -> None:
    binding = await ground.declare()
    publisher = await ground.broker.open_publisher()
    subscription = await ground.broker.open_subscription(binding, prefetch=100)
    batch = [make_message() for _ in range(20)]
    await publish(publisher, *batch)
    for delivery in (await receive(subscription, 20))[:5]:
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    await asyncio.to_thread(node.control, "stop_app")
    await eventually(lambda: not subscription.healthy)
    down = await publisher.publish([make_message()])
    assert down[0].verdict is Verdict.UNSENT
    await asyncio.to_thread(node.control, "start_app")
    await eventually(lambda: subscription.healthy, timeout=20)
    again = await receive(subscription, 15)
    assert set(ids(again)) <= set(hex_ids(batch))
    await publish(publisher, make_message())
    await receive(subscription, 1)


async def test_a_delivery_held_too_long_is_taken_back_and_comes_again(ground: BrokerGround) -> None:
    binding = await ground.declare()
    publisher = await ground.broker.open_publisher()
    await publish(publisher, make_message())
    subscription = await ground.broker.open_subscription(binding, prefetch=1)
    [held] = await receive(subscription, 1)
    [again] = await receive(subscription, 1, timeout=DELIVERY_TIMEOUT_SECONDS + 10)
    assert (ids([again]), again.redelivered) == (ids([held]), True)
    subscription.settle(held, Disposition.ACKNOWLEDGE)  # stale
    subscription.settle(again, Disposition.ACKNOWLEDGE)
    await eventually(lambda: subscription.healthy)


async def test_tls_is_verified_and_carries_bursts(node: RabbitNode, ground: BrokerGround) -> None:
    binding = await ground.declare()
    distrusting = ground.another(node.tls_url)
    with pytest.raises(BrokerUnavailableError, match="certificate verify failed"):
        await distrusting.check_connection()
    for tls in (TlsOptions(ca_file=str(node.certificate)), TlsOptions(verify=False)):
        broker = ground.another(node.tls_url, tls=tls, confirm_timeout_seconds=10)
        subscription = await broker.open_subscription(binding, prefetch=500)
        batch = [make_message() for _ in range(500)]
        await publish(await broker.open_publisher(), *batch)
        received = await receive(subscription, 500)
        assert ids(received) == hex_ids(batch)
        for delivery in received:
            subscription.settle(delivery, Disposition.ACKNOWLEDGE)
        await broker.close()


async def test_tls_for_another_host_name_is_refused(node: RabbitNode, ground: BrokerGround) -> None:
    broker = ground.another(
        node.tls_url.replace("127.0.0.1", "127.1"), tls=TlsOptions(ca_file=str(node.certificate))
    )
    with pytest.raises(BrokerUnavailableError, match="certificate verify failed"):
        await broker.check_connection()
