"""Consumers that are killed, cut off or without a database handle every message once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from sqlalchemy import Connection, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.options import InboxOptions
from inbox.store import InboxStore
from relay.broker import Broker
from relay.consuming.host import ConsumerHost
from relay.options import RelayOptions
from tests.faults.consumer_program import OPTIONS
from tests.support.brokers import BrokerGround, publish
from tests.support.consuming import (
    OrderPlaced,
    all_in_state,
    effects,
    hosted,
    placed,
    receipt_states,
    writing_consumer,
)
from tests.support.databases import engine_for
from tests.support.process import kill, program, said
from tests.support.proxy import TcpProxy
from tests.support.relaying import QUICK, inbox
from tests.support.waiting import eventually
from uow.sql.clock import DatabaseClock
from uow.sql.step import run_step


async def at_once(event: OrderPlaced) -> None: ...


@contextlib.asynccontextmanager
async def surviving_host(
    engine: AsyncEngine, broker: Broker | None, *, options: InboxOptions = OPTIONS
) -> AsyncIterator[ConsumerHost]:
    """A host that works as it should."""
    host = ConsumerHost(
        engine,
        InboxStore(inbox, options=options),
        [hosted(engine, writing_consumer("survivor", before=at_once), options=options)],
        lease_seconds=options.lease_seconds,
        broker=broker,
        options=QUICK,
    )
    task = asyncio.create_task(host.run())
    try:
        yield host
    finally:
        host.stop()
        await asyncio.wait_for(task, 30)


async def test_a_delivery_found_busy_is_not_lost_when_its_holder_is_killed(
    url: str, engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    message = placed(0)
    publisher = await rabbit.broker.open_publisher()
    async with program(
        "tests.faults.consumer_program", url, "hang", rabbit.url, rabbit.options.exchange
    ) as holder:
        await publish(publisher, message)
        await said(holder, "here")
        async with surviving_host(engine, rabbit.broker):
            await publish(publisher, message)  # a second copy, while the first is being handled
            await eventually(lambda: _queue_is_empty(rabbit))
            assert await receipt_states(engine) == {message.id: "processing"}
            assert await effects(engine) == []
            await kill(holder)
            await eventually(lambda: all_in_state(engine, "processed", [message]))
    assert await effects(engine) == [(0, "survivor")]


async def test_what_a_killed_process_was_handling_is_handled_by_another_within_the_lease(
    url: str, engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    messages = [placed(order) for order in range(6)]
    publisher = await rabbit.broker.open_publisher()
    async with program(
        "tests.faults.consumer_program", url, "hang", rabbit.url, rabbit.options.exchange
    ) as holder:
        await publish(publisher, *messages)
        await said(holder, "here")
        await eventually(lambda: _effects_of(engine, 5))
        await kill(holder)
        async with surviving_host(engine, rabbit.broker):
            await eventually(lambda: all_in_state(engine, "processed", messages))
    assert await effects(engine) == [(0, "survivor"), *((order, "killed") for order in range(1, 6))]


async def test_a_message_that_kills_its_process_is_dead_lettered_and_its_neighbours_are_handled(
    url: str, engine: AsyncEngine
) -> None:
    poison, neighbours = placed(0), [placed(order) for order in range(1, 4)]
    pairs = [("billing", message) for message in (poison, *neighbours)]
    await run_step(engine, lambda c: InboxStore(inbox, options=OPTIONS).record(c, pairs))
    for _ in range(3):
        async with program("tests.faults.consumer_program", url, "die") as process:
            await said(process, "here")
            assert await process.wait() == 9
        await run_step(engine, _let_leases_run_out)
    async with surviving_host(engine, None):
        await eventually(lambda: _count(engine, processed=3, dead_lettered=1))
    code = select(inbox.c.error_code).where(inbox.c.message_id == poison.id)
    assert await run_step(engine, lambda c: c.execute(code).scalar_one()) == "process_died"
    assert [order for order, _process in await effects(engine)] == [1, 2, 3]


async def test_a_database_that_is_away_while_messages_come_delays_them_and_doubles_nothing(
    url: str, engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    first, second = [placed(n) for n in range(20)], [placed(n) for n in range(20, 40)]
    publisher = await rabbit.broker.open_publisher()
    async with (
        TcpProxy.before(url) as proxy,
        engine_for(proxy.through(url)) as through,
        surviving_host(through, rabbit.broker) as host,
    ):
        await publish(publisher, *first)
        await eventually(lambda: _effects_of(engine, 5))
        proxy.refusing = True
        proxy.cut()
        await publish(publisher, *second)
        await eventually(lambda: any(loop.restarts >= 2 for loop in host.health))
        proxy.refusing = False
        await eventually(lambda: all_in_state(engine, "processed", first + second), 30)
        await eventually(lambda: _queue_is_empty(rabbit))
    assert [order for order, _process in await effects(engine)] == list(range(40))


async def test_a_broker_that_cuts_its_connections_delays_messages_and_doubles_nothing(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    messages = [placed(n) for n in range(60)]
    publisher = await rabbit.broker.open_publisher()
    async with TcpProxy.before(rabbit.url) as proxy:
        broker = rabbit.another(proxy.through(rabbit.url))
        async with surviving_host(engine, broker) as host:
            await eventually(lambda: host.connected == {"billing": True})
            for begin in range(0, 60, 20):
                await publish(publisher, *messages[begin : begin + 20])
                await eventually(lambda begin=begin: _effects_of(engine, begin + 3))
                proxy.refusing = True
                proxy.cut()
                await eventually(lambda: host.connected == {"billing": False})
                proxy.refusing = False
            await eventually(lambda: all_in_state(engine, "processed", messages), 30)
            await eventually(lambda: host.connected == {"billing": True})
            await eventually(lambda: _queue_is_empty(rabbit))
        await broker.close()
    assert [order for order, _process in await effects(engine)] == list(range(60))


async def test_a_host_survives_that_its_queue_is_deleted_and_declared_again(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    publisher = await rabbit.broker.open_publisher()
    async with surviving_host(engine, rabbit.broker) as host:
        await eventually(lambda: host.connected == {"billing": True})
        await rabbit.delete_queue()
        await eventually(lambda: host.connected == {"billing": False})
        await rabbit.declare()
        await eventually(lambda: host.connected == {"billing": True})
        message = placed(1)
        await publish(publisher, message)
        await eventually(lambda: all_in_state(engine, "processed", [message]))


async def test_a_stopping_host_gives_unfinished_deliveries_back_to_the_broker(
    engine: AsyncEngine, rabbit: BrokerGround
) -> None:
    messages = [placed(n) for n in range(8)]
    await publish(await rabbit.broker.open_publisher(), *messages)
    begun = asyncio.Event()

    async def hang(event: OrderPlaced) -> None:
        begun.set()
        await asyncio.Event().wait()

    host = ConsumerHost(
        engine,
        InboxStore(inbox, options=OPTIONS),
        [hosted(engine, writing_consumer("stopping", before=hang), options=OPTIONS)],
        lease_seconds=OPTIONS.lease_seconds,
        broker=rabbit.broker,
        options=RelayOptions(poll_interval_seconds=0.1, stop_grace_seconds=0.1),
    )
    task = asyncio.create_task(host.run())
    await asyncio.wait_for(begun.wait(), 10)
    host.stop()
    await asyncio.wait_for(task, 15)
    await eventually(lambda: _waiting(rabbit, 8))
    async with surviving_host(engine, rabbit.another()):
        await eventually(lambda: all_in_state(engine, "processed", messages))
    assert await effects(engine) == [(order, "survivor") for order in range(8)]


async def _effects_of(engine: AsyncEngine, count: int) -> bool:
    return len(await effects(engine)) >= count


async def _count(engine: AsyncEngine, **expected: int) -> bool:
    states = list((await receipt_states(engine)).values())
    return {state: states.count(state) for state in set(states)} == expected


def _let_leases_run_out(connection: Connection) -> None:
    past = DatabaseClock().after(-1)
    held = update(inbox).where(inbox.c.lease_expires_at.is_not(None))
    connection.execute(held.values(lease_expires_at=past, next_attempt_at=past))


async def _queue_is_empty(ground: BrokerGround) -> bool:
    return await _waiting(ground, 0)


async def _waiting(ground: BrokerGround, count: int) -> bool:
    name = ground.queue()
    declared = await ground.administer(lambda channel: channel.queue_declare(name, passive=True))
    return bool(declared.message_count == count)
