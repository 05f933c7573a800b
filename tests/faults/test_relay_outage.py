"""Outages of the database and of the broker cost latency, never an event and never an attempt."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from sqlalchemy.ext.asyncio import AsyncEngine

from outbox.options import OutboxOptions
from outbox.store import OutboxStore
from relay.broker import Disposition, Subscription
from relay.options import RelayOptions
from relay.publishing.outlet import BrokerOutlet
from relay.publishing.publisher import OutboxRelay
from tests.support.brokers import BrokerGround
from tests.support.databases import engine_for
from tests.support.proxy import TcpProxy
from tests.support.relaying import (
    QUICK,
    Gate,
    ScriptedOutlet,
    all_published,
    fill,
    make_relay,
    outbox,
    outbox_rows,
    outbox_states,
    running,
)
from tests.support.waiting import eventually

QUICK_LEASE = OutboxOptions(batch_size=20, lease_seconds=2)
IMPATIENT = {"confirm_timeout_seconds": 0.5, "connect_timeout_seconds": 0.5, "close_timeout_seconds": 0.5}


class Collector:
    """Takes everything from the queue, as a consumer would, straight from the broker."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def take(self, subscription: Subscription) -> None:
        while True:
            for delivery in await subscription.receive(100):
                self.ids.append(str(delivery.properties["message_id"]))
                subscription.settle(delivery, Disposition.ACKNOWLEDGE)


@contextlib.asynccontextmanager
async def collecting(ground: BrokerGround) -> AsyncIterator[Collector]:
    collector = Collector()
    subscription = await ground.broker.open_subscription(ground.binding(), prefetch=100)
    task = asyncio.create_task(collector.take(subscription))
    try:
        yield collector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def relay_over(
    engine: AsyncEngine, ground: BrokerGround, proxy: TcpProxy, *, options: RelayOptions = QUICK
) -> OutboxRelay:
    broker = ground.another(proxy.through(ground.url), **IMPATIENT)
    store = OutboxStore(outbox, options=QUICK_LEASE)
    return OutboxRelay(engine, store, BrokerOutlet(broker, provider="rabbitmq"), options=options)


async def nothing_was_counted(engine: AsyncEngine) -> bool:
    return {row["failure_count"] for row in (await outbox_rows(engine)).values()} == {0}


async def test_a_database_that_is_away_for_a_while_is_waited_for(url: str, engine: AsyncEngine) -> None:
    async with TcpProxy.before(url) as proxy, engine_for(proxy.through(url)) as through:
        outlet = ScriptedOutlet()
        relay = make_relay(through, outlet)
        async with running(relay):
            await eventually(lambda: relay.health.last_tick is not None)
            proxy.refusing = True
            proxy.cut()
            messages = await fill(engine, 30)
            await eventually(lambda: relay.health.restarts >= 2)
            assert relay.health.failing_since is not None
            proxy.refusing = False
            await eventually(lambda: all_published(engine, 30))
            await eventually(lambda: relay.health.failing_since is None)
    assert outlet.sent == [message.id for message in messages]


async def test_what_was_confirmed_while_the_database_was_away_is_settled_and_not_sent_again(
    url: str, engine: AsyncEngine
) -> None:
    await fill(engine, 10)
    gate = Gate()
    outlet = ScriptedOutlet(gate)
    async with (
        TcpProxy.before(url) as proxy,
        engine_for(proxy.through(url)) as through,
        running(make_relay(through, outlet)),
    ):
        await gate.entered.acquire()
        proxy.refusing = True
        proxy.cut()
        accepted = proxy.accepted
        gate.open(100)
        await eventually(lambda: proxy.accepted >= accepted + 2)
        proxy.refusing = False
        await eventually(lambda: all_published(engine, 10))
    assert len(outlet.sent) == 10


async def test_a_broker_that_cuts_its_connections_again_and_again_gets_every_event(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    async with TcpProxy.before(rabbit.url) as proxy, collecting(rabbit) as collector:
        async with running(relay_over(engine, rabbit, proxy)):
            total = 0
            for _ in range(4):
                await fill(engine, 50)
                total += 50
                published = total - 50
                await eventually(lambda published=published: _published_beyond(engine, published))
                proxy.cut()
            await eventually(lambda: all_published(engine, total), 30)
        rows = await outbox_rows(engine)
        await eventually(lambda: {message_id.hex for message_id in rows} == set(collector.ids))
    assert await nothing_was_counted(engine)


async def test_a_broker_that_is_away_is_waited_for_without_claims(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    await fill(engine, 40)
    async with TcpProxy.before(rabbit.url) as proxy:
        proxy.refusing = True
        relay = relay_over(engine, rabbit, proxy)
        async with running(relay):
            await eventually(lambda: proxy.accepted >= 3)
            assert not relay.broker_usable
            assert await outbox_states(engine) == {"pending": 40}
            rows = await outbox_rows(engine)
            assert {row["claim_count"] for row in rows.values()} == {0}
            proxy.refusing = False
            await eventually(lambda: all_published(engine, 40))
    assert await nothing_was_counted(engine)


async def test_a_line_that_goes_dead_without_a_word_is_given_up_in_bounded_time(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    async with TcpProxy.before(rabbit.url) as proxy, collecting(rabbit) as collector:
        relay = relay_over(engine, rabbit, proxy)
        async with running(relay):
            await fill(engine, 1)
            await eventually(lambda: all_published(engine, 1))
            proxy.blackhole()
            await fill(engine, 10)
            await eventually(lambda: not relay.broker_usable)
            assert (await outbox_states(engine))["published"] == 1
            await proxy.release()
            proxy.cut()
            await eventually(lambda: all_published(engine, 11), 20)
        assert len(set(collector.ids)) == 11
    assert await nothing_was_counted(engine)


async def test_a_relay_stops_in_its_grace_period_while_the_line_is_dead(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    async with TcpProxy.before(rabbit.url) as proxy:
        relay = relay_over(engine, rabbit, proxy)
        task = asyncio.create_task(relay.run())
        await fill(engine, 1)
        await eventually(lambda: all_published(engine, 1))
        proxy.blackhole()
        await fill(engine, 10)
        await eventually(lambda: _in_hand(engine))
        relay.stop()
        await asyncio.wait_for(task, QUICK.stop_grace_seconds + 5)
        states = await outbox_states(engine)
        assert states["published"] == 1
        assert states["pending"] + states["publishing"] == 10


async def test_an_event_that_no_queue_is_bound_for_is_dead_lettered_beside_healthy_ones(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    await fill(engine, 10)
    stray = (await fill(engine, 1, name="orders.lost"))[0]
    await fill(engine, 10)
    async with TcpProxy.before(rabbit.url) as proxy, running(relay_over(engine, rabbit, proxy)):
        await eventually(lambda: _is(engine, published=20, dead_lettered=1))
    assert (await outbox_rows(engine))[stray.id]["error_code"] == "unroutable"


async def test_a_missing_exchange_leaves_the_events_stored_until_it_is_declared_again(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    await rabbit.delete_exchange()
    await fill(engine, 10)
    async with TcpProxy.before(rabbit.url) as proxy:
        relay = relay_over(engine, rabbit, proxy)
        async with running(relay):
            await eventually(lambda: not relay.broker_usable and proxy.accepted >= 2)
            assert (await outbox_states(engine))["published"] == 0
            await rabbit.declare()
            await eventually(lambda: all_published(engine, 10), 20)
    assert await nothing_was_counted(engine)


async def _published_beyond(engine: AsyncEngine, count: int) -> bool:
    return (await outbox_states(engine))["published"] > count


async def _in_hand(engine: AsyncEngine) -> bool:
    return (await outbox_states(engine))["publishing"] > 0


async def _is(engine: AsyncEngine, **states: int) -> bool:
    return await outbox_states(engine) == states
