"""A bad network between us and RabbitMQ: bounded in time, and never a wrong verdict."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.broker import Broker, BrokerUnavailableError, Disposition, Publisher, Verdict
from tests.support.brokers import (
    RABBITMQ,
    BrokerGround,
    broker_ground,
    hex_ids,
    ids,
    make_message,
    publish,
    receive,
)
from tests.support.proxy import Flow, Reaction, TcpProxy
from tests.support.waiting import eventually

CONFIRM_TIMEOUT_SECONDS = 1.5
BOUND_SECONDS = CONFIRM_TIMEOUT_SECONDS + 1.0 + 1.0  # plus one reconnect, plus room for a busy machine


@pytest.fixture
async def rabbit(tmp_path: Path) -> AsyncIterator[BrokerGround]:
    """Short timeouts."""
    async with broker_ground(
        RABBITMQ,
        tmp_path,
        confirm_timeout_seconds=CONFIRM_TIMEOUT_SECONDS,
        connect_timeout_seconds=1.0,
        heartbeat_seconds=1.0,
        close_timeout_seconds=1.0,
    ) as ground:
        yield ground


@pytest.fixture
async def proxy(rabbit: BrokerGround) -> AsyncIterator[TcpProxy]:
    async with TcpProxy.before(rabbit.url) as proxy:
        yield proxy


@pytest.fixture
async def remote(rabbit: BrokerGround, proxy: TcpProxy) -> AsyncIterator[Broker]:
    """The broker as seen through the proxy."""
    broker = rabbit.another(proxy.through(rabbit.url))
    yield broker
    await proxy.release()
    await broker.close()


@pytest.fixture
async def publisher(rabbit: BrokerGround, remote: Broker) -> Publisher:
    """Connected and proven."""
    await rabbit.declare()
    publisher = await remote.open_publisher()
    await publish(publisher, make_message())
    return publisher


async def test_a_broker_that_refuses_connections_leaves_everything_unsent(
    rabbit: BrokerGround, remote: Broker, proxy: TcpProxy
) -> None:
    await rabbit.declare()
    proxy.refusing = True
    publisher = await remote.open_publisher()
    began = time.monotonic()
    results = await publisher.publish([make_message(), make_message()])
    assert time.monotonic() - began < BOUND_SECONDS
    assert {(result.verdict, result.error_code) for result in results} == {
        (Verdict.UNSENT, "broker_unavailable")
    }
    with pytest.raises(BrokerUnavailableError, match=r"cannot reach the broker at amqp://127\.0\.0\.1:"):
        await remote.check_connection()
    proxy.refusing = False
    await publish(publisher, make_message())
    await remote.check_connection()


async def test_a_broker_that_never_answers_the_handshake_leaves_everything_unsent(
    rabbit: BrokerGround, remote: Broker, proxy: TcpProxy
) -> None:
    await rabbit.declare()
    proxy.blackhole()
    publisher = await remote.open_publisher()
    began = time.monotonic()
    [result] = await publisher.publish([make_message()])
    assert time.monotonic() - began < BOUND_SECONDS
    assert (result.verdict, result.error_code) == (Verdict.UNSENT, "broker_unavailable")


async def test_a_connection_that_died_while_idle_costs_nothing(
    rabbit: BrokerGround, publisher: Publisher, proxy: TcpProxy
) -> None:
    proxy.cut()
    await publish(publisher, make_message())


async def test_a_line_that_is_dead_before_the_batch_leaves_it_unsent(
    publisher: Publisher, proxy: TcpProxy
) -> None:
    proxy.blackhole()
    began = time.monotonic()
    results = await publisher.publish([make_message() for _ in range(200)])
    assert time.monotonic() - began < BOUND_SECONDS
    assert {result.verdict for result in results} == {Verdict.UNSENT}
    await proxy.release()
    await publish(publisher, make_message())


async def test_a_line_cut_in_the_middle_of_a_batch_leaves_what_was_written_unknown(
    rabbit: BrokerGround, publisher: Publisher, proxy: TcpProxy
) -> None:
    batch = [make_message() for _ in range(2000)]
    proxy.react(batch[300].id.hex.encode(), Reaction.CUT_BEFORE_SERVER)
    results = await publisher.publish(batch)
    kinds = [result.verdict for result in results]
    assert set(kinds) <= {Verdict.CONFIRMED, Verdict.UNKNOWN, Verdict.UNSENT}
    assert kinds[300] is Verdict.UNKNOWN
    assert kinds[-1] is Verdict.UNSENT
    subscription = await rabbit.broker.open_subscription(rabbit.binding(), prefetch=3000)
    await publish(publisher, last := make_message())
    arrived: list[str] = []
    while last.id.hex not in arrived:
        arrived += ids(await receive(subscription, 1))
    certain = [m.id.hex for m, verdict in zip(batch, kinds, strict=True) if verdict is Verdict.CONFIRMED]
    unsent = [m.id.hex for m, verdict in zip(batch, kinds, strict=True) if verdict is Verdict.UNSENT]
    assert set(certain) <= set(arrived)
    assert not set(unsent) & set(arrived)


async def test_confirms_that_do_not_come_leave_what_was_written_unknown(
    rabbit: BrokerGround, publisher: Publisher, proxy: TcpProxy
) -> None:
    batch = [make_message() for _ in range(20)]
    proxy.react(batch[0].id.hex.encode(), Reaction.HOLD_REPLY)
    began = time.monotonic()
    results = await publisher.publish(batch)
    assert time.monotonic() - began < BOUND_SECONDS
    assert {(result.verdict, result.error_code) for result in results} == {
        (Verdict.UNKNOWN, "confirm_timeout")
    }
    subscription = await rabbit.broker.open_subscription(rabbit.binding(), prefetch=100)
    assert set(hex_ids(batch)) <= set(ids(await receive(subscription, 21)))  # they had arrived
    await proxy.release()
    await publish(publisher, make_message())


async def test_a_new_connection_that_leads_nowhere_takes_one_message_into_doubt(
    rabbit: BrokerGround, remote: Broker, proxy: TcpProxy
) -> None:
    await rabbit.declare()
    batch = [make_message() for _ in range(50)]
    proxy.react(batch[0].id.hex.encode(), Reaction.DROP_BOTH)
    publisher = await remote.open_publisher()
    results = await publisher.publish(batch)
    assert [result.verdict for result in results] == [Verdict.UNKNOWN] + [Verdict.UNSENT] * 49


async def test_a_slow_line_is_only_slow(rabbit: BrokerGround, publisher: Publisher, proxy: TcpProxy) -> None:
    proxy.delay_seconds = 0.02
    await publish(publisher, *[make_message() for _ in range(200)])


async def test_deliveries_of_a_cut_connection_come_again_and_settling_the_old_ones_does_nothing(
    rabbit: BrokerGround, publisher: Publisher, remote: Broker, proxy: TcpProxy
) -> None:
    batch = [make_message() for _ in range(5)]
    await publish(publisher, *batch)
    subscription = await remote.open_subscription(rabbit.binding(), prefetch=10)
    old = await receive(subscription, 6)
    proxy.cut()
    again = await receive(subscription, 6)
    assert sorted(ids(again)) == sorted(ids(old))
    assert all(delivery.redelivered for delivery in again)
    for delivery in old:
        subscription.settle(delivery, Disposition.ACKNOWLEDGE)
    proxy.cut()
    assert sorted(ids(await receive(subscription, 6))) == sorted(ids(old))


async def test_deliveries_not_yet_received_are_dropped_with_their_connection(
    rabbit: BrokerGround, publisher: Publisher, remote: Broker, proxy: TcpProxy
) -> None:
    subscription = await remote.open_subscription(rabbit.binding(), prefetch=10)
    await receive(subscription, 1)
    await publish(publisher, *[make_message() for _ in range(3)])
    await eventually(lambda: len(subscription._buffer) == 3)  # type: ignore[attr-defined]
    connections = proxy.accepted
    proxy.cut()
    await eventually(lambda: proxy.accepted > connections)
    received = await receive(subscription, 4)
    assert len(set(ids(received))) == 4
    assert all(delivery.redelivered for delivery in received)


async def test_a_subscription_notices_a_silent_broker_and_one_that_only_idles_is_left_alone(
    rabbit: BrokerGround, publisher: Publisher, remote: Broker, proxy: TcpProxy
) -> None:
    idle = await rabbit.broker.open_publisher()
    await publish(idle, make_message())
    connection = idle._publishing  # type: ignore[attr-defined]
    subscription = await remote.open_subscription(rabbit.binding(), prefetch=10)
    await receive(subscription, 2)
    assert subscription.healthy
    proxy.replies = Flow.DROP  # the broker still hears our heartbeats and sees nothing wrong
    await eventually(lambda: not subscription.healthy, timeout=8)
    await proxy.release()
    await eventually(lambda: subscription.healthy, timeout=8)
    assert all(delivery.redelivered for delivery in await receive(subscription, 2))
    assert idle._publishing is connection  # type: ignore[attr-defined]


async def test_closing_is_bounded_on_a_dead_line(
    rabbit: BrokerGround, publisher: Publisher, remote: Broker, proxy: TcpProxy
) -> None:
    subscription = await remote.open_subscription(rabbit.binding(), prefetch=10)
    await receive(subscription, 1)
    proxy.blackhole()
    began = time.monotonic()
    await subscription.stop_receiving()
    await subscription.close()
    await publisher.close()
    assert time.monotonic() - began < 8


async def test_replies_held_back_do_not_stop_the_publisher_from_closing(
    publisher: Publisher, proxy: TcpProxy
) -> None:
    proxy.replies = Flow.HOLD
    began = time.monotonic()
    await publisher.close()
    assert time.monotonic() - began < BOUND_SECONDS
