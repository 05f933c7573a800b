"""What is special about Redis: pipelined publishing, the visibility timeout, a shared database."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kombu import Connection

from relay.broker import Broker, Disposition, Verdict
from tests.support.brokers import REDIS, BrokerGround, broker_ground, ids, make_message, publish, receive
from tests.support.proxy import Reaction, TcpProxy
from tests.support.waiting import eventually


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[BrokerGround]:
    async with broker_ground(REDIS, tmp_path, connect_timeout_seconds=1.0) as ground:
        yield ground


@pytest.fixture
async def proxy(redis: BrokerGround) -> AsyncIterator[TcpProxy]:
    async with TcpProxy.before(redis.url) as proxy:
        yield proxy


@pytest.fixture
async def remote(redis: BrokerGround, proxy: TcpProxy) -> AsyncIterator[Broker]:
    """The broker as seen through the proxy."""
    broker = redis.another(proxy.through(redis.url))
    yield broker
    await proxy.release()
    await broker.close()


async def test_deliveries_of_a_cut_connection_come_again_at_once(
    redis: BrokerGround, remote: Broker, proxy: TcpProxy
) -> None:
    binding = await redis.declare()
    batch = [make_message() for _ in range(4)]
    await publish(await redis.broker.open_publisher(), *batch)
    subscription = await remote.open_subscription(binding, prefetch=10)
    old = await receive(subscription, 4)
    proxy.cut()
    again = await receive(subscription, 4)
    assert sorted(ids(again)) == sorted(ids(old))
    assert all(delivery.redelivered for delivery in again)
    for delivery in old:  # stale
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    proxy.cut()
    assert len(await receive(subscription, 4)) == 4


async def test_deliveries_held_while_redis_was_away_come_again_when_it_is_back(
    redis: BrokerGround, remote: Broker, proxy: TcpProxy
) -> None:
    binding = await redis.declare()
    await publish(await redis.broker.open_publisher(), make_message(), make_message())
    subscription = await remote.open_subscription(binding, prefetch=10)
    old = await receive(subscription, 2)
    proxy.refusing = True
    proxy.cut()
    await eventually(lambda: not subscription.healthy)
    proxy.refusing = False
    assert sorted(ids(await receive(subscription, 2))) == sorted(ids(old))


async def test_publishing_to_a_redis_that_does_not_answer_is_unsent_or_unknown_in_time(
    redis: BrokerGround, remote: Broker, proxy: TcpProxy
) -> None:
    await redis.declare()
    publisher = await remote.open_publisher()
    await publish(publisher, make_message())
    proxy.blackhole()
    began = time.monotonic()
    results = await publisher.publish([make_message() for _ in range(300)])
    assert time.monotonic() - began < 8
    assert {result.verdict for result in results} <= {Verdict.UNSENT, Verdict.UNKNOWN}
    await proxy.release()
    await publish(publisher, make_message())


async def test_a_pipeline_cut_while_it_is_sent_leaves_its_messages_unknown(
    redis: BrokerGround, remote: Broker, proxy: TcpProxy
) -> None:
    await redis.declare()
    publisher = await remote.open_publisher()
    await publish(publisher, make_message())
    batch = [make_message() for _ in range(250)]
    proxy.react(batch[120].id.hex.encode(), Reaction.CUT_AFTER_REPLY)
    verdicts = [result.verdict for result in await publisher.publish(batch)]
    assert set(verdicts[:100]) == {Verdict.CONFIRMED}
    assert set(verdicts[100:200]) == {Verdict.UNKNOWN}
    assert set(verdicts[200:]) == {Verdict.UNSENT}


async def test_a_key_of_another_type_puts_nothing_else_in_doubt(redis: BrokerGround) -> None:
    await redis.declare()
    publisher = await redis.broker.open_publisher()
    with Connection(redis.url) as connection:
        connection.default_channel.client.set(redis.queue(), "not a list")
    [result] = await publisher.publish([make_message()])
    assert (result.verdict, result.error_code) == (Verdict.UNKNOWN, "broker_error")
    with Connection(redis.url) as connection:
        connection.default_channel.client.delete(redis.queue())
    await publish(publisher, make_message())


async def test_a_global_key_prefix_keeps_applications_apart(redis: BrokerGround) -> None:
    binding = await redis.declare()
    prefix = f"{redis.options.queue_prefix}:"
    apart = redis.another(global_keyprefix=prefix)
    assert {part.status for part in await apart.check_topology([binding])} == {"missing"}
    await apart.declare_topology([binding])
    message = make_message()
    await publish(await apart.open_publisher(), message)
    subscription = await apart.open_subscription(binding, prefetch=10)
    [delivery] = await receive(subscription, 1)
    subscription.settle(delivery, Disposition.REJECT)
    await eventually(lambda: _dead(apart, 1))
    assert await redis.broker.count_dead([binding.consumer]) == {binding.consumer: 0}
    assert [dead.message_id for dead in await apart.list_dead(binding.consumer, limit=5)] == [message.id.hex]
    await apart.close()
    with Connection(redis.url) as connection:
        keys = connection.default_channel.client.keys(f"*{redis.options.queue_prefix}*")
    assert [key for key in keys if key.startswith(prefix.encode())]


async def test_what_a_killed_process_held_comes_back_after_the_acknowledgement_timeout(
    redis: BrokerGround,
) -> None:
    binding = await redis.declare()
    message = make_message()
    await publish(await redis.broker.open_publisher(), message)
    program = f"""
import asyncio
from relay.broker import ConsumerBinding
from relay.kombu_broker import BrokerOptions, open_broker
async def main():
    broker = open_broker({redis.url!r}, BrokerOptions(
        exchange={redis.options.exchange!r}, queue_prefix={redis.options.queue_prefix!r}))
    binding = ConsumerBinding(consumer={binding.consumer!r}, routing_keys=frozenset())
    subscription = await broker.open_subscription(binding, prefetch=1)
    await subscription.receive(1)
    print("held", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    survivor = redis.another(
        acknowledgement_timeout_seconds=1.0,
        transport_options={"polling_interval": 0.1, "unacked_restore_interval": 0.5},
    )
    subscription = await survivor.open_subscription(binding, prefetch=1)
    [again] = await receive(subscription, 1)
    assert (ids([again]), again.redelivered) == ([message.id.hex], True)
    await survivor.close()


async def _dead(broker: Broker, count: int) -> bool:
    return list((await broker.count_dead(["billing"])).values()) == [count]
