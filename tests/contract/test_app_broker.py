"""An App with a real broker: topology, dead queues, and a broker that is away."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Producer
from sqlalchemy.ext.asyncio import AsyncEngine

from relay.admin.dead_queue import NoDeadQueueError
from relay.admin.operation import OperationKind, OperationResult, operation_table
from relay.app import App
from relay.broker import BrokerUnavailableError, TopologyError
from relay.consuming.subscription import UnknownConsumerError
from relay.health import Readiness
from tests.support.apps import Seen, place, ready_app, running
from tests.support.brokers import RABBITMQ, REDIS, BrokerGround, BrokerKind, broker_ground
from tests.support.waiting import eventually
from uow.sql.step import run_step

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
NOWHERE = "amqp://anna:hunter2@127.0.0.1:1//"


@pytest.fixture
async def ground(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[BrokerGround]:
    kind: BrokerKind = getattr(request, "param", RABBITMQ)
    async with broker_ground(kind, tmp_path) as ground:
        ground.consumers.update({"billing", "shipping"})
        yield ground


@pytest.fixture
async def shop(engine: AsyncEngine, ground: BrokerGround) -> AsyncIterator[tuple[App, Seen]]:
    app, seen = await ready_app(engine, broker=ground.url, options={"broker": ground.options})
    yield app, seen
    await app.close()


@pytest.mark.parametrize("ground", [RABBITMQ, REDIS], indirect=True, ids=lambda kind: kind.name)
async def test_events_go_through_the_broker_to_each_consumer_once(shop: tuple[App, Seen]) -> None:
    app, seen = shop
    await app.declare_topology()
    async with running(app.run):
        await place(app, 1, 2, 3)
        await eventually(lambda: len(seen.closed) == 3, 20)
        await eventually(lambda: _is_ready(app))
    assert [sorted(each) for each in (seen.billed, seen.shipped, seen.closed)] == [[1, 2, 3]] * 3


async def test_a_missing_topology_is_told_with_the_command_that_creates_it(
    shop: tuple[App, Seen], ground: BrokerGround
) -> None:
    app, _ = shop
    with pytest.raises(TopologyError, match=r"missing.*`selfmanaged topology declare`"):
        await app.run()
    report = await app.health.report()
    assert (report.readiness, report.is_ready) == (Readiness.DEGRADED, True)
    assert {part.status for part in await app.check_topology()} == {"missing"}
    declared = await app.declare_topology()
    assert {part.status for part in declared} <= {"declared", "present"}
    names = {part.name for part in await app.check_topology()}
    assert {ground.options.exchange, ground.queue("billing"), f"{ground.queue('shipping')}.dead"} <= names
    assert all(part.stands for part in await app.check_topology())


async def test_in_development_a_start_may_declare_the_topology_itself(
    engine: AsyncEngine, ground: BrokerGround
) -> None:
    options = {"broker": ground.options, "declare_topology": True}
    app, seen = await ready_app(engine, broker=ground.url, options=options)
    async with running(app.run):
        await place(app, 1)
        await eventually(lambda: seen.closed == [1])
    await app.close()


async def test_a_broker_that_is_away_is_degraded_and_events_wait(engine: AsyncEngine) -> None:
    app, _ = await ready_app(engine, broker=NOWHERE)
    async with running(app.run):
        await place(app, 1)
        await eventually(lambda: _is_degraded(app))
        report = await app.health.report()
        assert report.is_ready
        assert "hunter2" not in repr(report)
        status = await app.status()
    assert (status.outbox.pending, status.outbox.dead_lettered) == (1, 0)
    assert status.dead_deliveries_unknown is not None
    assert "hunter2" not in status.dead_deliveries_unknown
    for look in (app.check_topology, app.declare_topology, app.dead.counts):
        with pytest.raises(BrokerUnavailableError):
            await look()
    await app.close()


async def test_operators_list_requeue_and_drop_what_the_broker_keeps_in_a_dead_queue(
    shop: tuple[App, Seen], ground: BrokerGround
) -> None:
    app, _ = shop
    await app.declare_topology()
    await ground.administer(lambda channel: _send_rubbish(ground, 3))
    async with running(app.run_consumers):
        await eventually(lambda: _dead(app, 3))
    assert await app.dead.counts() == {"billing": 3, "shipping": 3}
    (first, *_rest) = await app.dead.list("billing", limit=2)
    assert (first.consumer, "SECRET" in repr(first)) == ("billing", False)
    assert await app.dead.requeue("billing", operator="anna", limit=1) == 1
    assert await app.dead.drop("billing", operator="anna", limit=10) == 2
    assert await app.dead.drop("billing", operator="ben") == 0
    assert (await app.dead.counts())["billing"] == 0
    async with running(app.run_consumers):
        await eventually(lambda: _dead_of(app, "billing", 1))
    recorded = await run_step(app.engine, lambda c: c.execute(operation_table(app.metadata).select()).all())
    assert [(each.kind, each.operator, each.message_count, each.result) for each in recorded] == [
        (OperationKind.REQUEUE_DEAD, "anna", 1, OperationResult.ACCEPTED),
        (OperationKind.DROP_DEAD, "anna", 2, OperationResult.ACCEPTED),
        (OperationKind.DROP_DEAD, "ben", 0, OperationResult.NOT_FOUND),
    ]
    with pytest.raises(UnknownConsumerError, match="did you mean 'billing'"):
        await app.dead.list("biling")
    for limit in (0, 10_001):
        with pytest.raises(ValueError, match="limit must be between 1 and 10000"):
            await app.dead.list("billing", limit=limit)


async def test_local_has_no_dead_queues(engine: AsyncEngine) -> None:
    app, _ = await ready_app(engine)
    assert await app.dead.counts() == {}
    with pytest.raises(NoDeadQueueError, match="`failed list`"):
        await app.dead.drop("billing", operator="anna")


def _send_rubbish(ground: BrokerGround, count: int) -> None:
    with Connection(ground.url) as connection:
        producer: Any = Producer(connection)
        exchange = Exchange(ground.options.exchange, no_declare=True)
        for _ in range(count):
            producer.publish(
                b"SECRET", exchange=exchange, routing_key="orders.placed.v1", content_type="application/json"
            )


async def _dead(app: App, count: int) -> bool:
    return await app.dead.counts() == {"billing": count, "shipping": count}


async def _dead_of(app: App, consumer: str, count: int) -> bool:
    return (await app.dead.counts())[consumer] == count


async def _is_ready(app: App) -> bool:
    return (await app.health.report()).readiness is Readiness.READY


async def _is_degraded(app: App) -> bool:
    report = await app.health.report()
    failing = {check.name for check in report.checks if check.readiness is not Readiness.READY}
    return report.readiness is Readiness.DEGRADED and {"broker", "topology", "consumers"} <= failing
