"""Retention and diagnostics are done by one process of many, and a process that dies is followed."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest
from opentelemetry.metrics import Observation
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.options import InboxOptions
from inbox.store import InboxStore
from outbox.options import OutboxOptions
from outbox.store import OutboxStore
from relay.broker import BrokerUnavailableError
from relay.diagnostics import Diagnostics
from relay.housekeeping import Housekeeping
from relay.options import RelayOptions
from tests.support.databases import create_tables
from tests.support.relaying import fill, inbox, leases, make_message, metadata, outbox, outbox_states
from tests.support.waiting import eventually
from uow.loop.chore import Chore
from uow.loop.supervision import StopRequest, supervise
from uow.sql.clock import DatabaseClock
from uow.sql.lease import LeaseStore
from uow.sql.step import run_step

OFTEN = RelayOptions(
    diagnostics_interval_seconds=0.1, retention_interval_seconds=0.1, retention_batch_size=10
)

# The same on every database, since only loops are at stake.
ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncEngine:
    await create_tables(engine, metadata)
    return engine


def housekeeping(engine: AsyncEngine, options: RelayOptions = OFTEN) -> Housekeeping:
    return Housekeeping(
        engine,
        OutboxStore(outbox, options=OutboxOptions(published_retention_seconds=3600)),
        InboxStore(inbox, options=InboxOptions(processed_retention_seconds=3600)),
        LeaseStore(leases),
        provider="local",
        options=options,
    )


class Counting:
    """Work that counts, of a process that may stop or die."""

    def __init__(self, engine: AsyncEngine, *, interval_seconds: float = 0.1) -> None:
        self.done = 0
        self.stood_down = 0
        self.stop = StopRequest()
        self.chore = Chore(
            engine,
            LeaseStore(leases),
            name="counting",
            owner=uuid4().hex,
            interval_seconds=interval_seconds,
            work=self._work,
            stood_down=self._stand_down,
            stop=self.stop,
        )

    async def _work(self) -> bool:
        self.done += 1
        return False

    def _stand_down(self) -> None:
        self.stood_down += 1

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(supervise(self.chore.run, self.chore.health, self.stop))


async def finished_long_ago(engine: AsyncEngine, count: int) -> None:
    """`count` published events and processed receipts that ended two hours ago."""
    messages = await fill(engine, count)
    long_ago = DatabaseClock().after(-7200)

    def age(connection: object) -> None:
        InboxStore(inbox).record(connection, [("billing", message) for message in messages])  # type: ignore[arg-type]
        for table, state in ((outbox, "published"), (inbox, "processed")):
            connection.execute(  # type: ignore[attr-defined]
                update(table).values(state=state, completed_at=long_ago, next_attempt_at=None)
            )

    await run_step(engine, age)


async def test_old_finished_rows_are_deleted_in_batches_until_none_is_left(ready: AsyncEngine) -> None:
    await finished_long_ago(ready, 35)
    await fill(ready, 3)
    service = housekeeping(ready)
    task = asyncio.create_task(service.run())
    await eventually(lambda: _left(ready, outbox=3, inbox=0))
    service.stop()
    await asyncio.wait_for(task, 10)
    assert await outbox_states(ready) == {"pending": 3}


async def test_of_two_processes_one_works_and_the_other_stands_by(ready: AsyncEngine) -> None:
    first, second = Counting(ready), Counting(ready)
    tasks = [first.start(), second.start()]
    await eventually(lambda: first.done + second.done >= 4 and first.stood_down + second.stood_down >= 3)
    assert min(first.done, second.done) == 0
    assert first.chore.leading != second.chore.leading
    first.stop.request()
    second.stop.request()
    await asyncio.wait_for(asyncio.gather(*tasks), 10)


@ON_ONE_DATABASE
async def test_a_process_that_stops_is_followed_at_once(ready: AsyncEngine) -> None:
    first = Counting(ready, interval_seconds=600)
    task = first.start()
    await eventually(lambda: first.done == 1)
    first.stop.request()
    await asyncio.wait_for(task, 10)
    second = Counting(ready, interval_seconds=600)
    task = second.start()
    await eventually(lambda: second.done == 1)
    second.stop.request()
    await asyncio.wait_for(task, 10)


async def test_a_process_that_dies_is_followed_when_its_lease_has_run_out(ready: AsyncEngine) -> None:
    first, second = Counting(ready), Counting(ready)
    dying = first.start()
    await eventually(lambda: first.done >= 1)
    following = second.start()
    await eventually(lambda: second.stood_down >= 1)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    await eventually(lambda: second.done >= 1)
    second.stop.request()
    await asyncio.wait_for(following, 10)


async def test_a_sample_counts_every_unfinished_and_dead_state_zeros_too(
    ready: AsyncEngine,
) -> None:
    await fill(ready, 4)
    await run_step(ready, lambda c: InboxStore(inbox).record(c, [("billing", make_message())]))
    diagnostics = Diagnostics(ready, OutboxStore(outbox), InboxStore(inbox), provider="local")
    await diagnostics.sample()
    assert _values(diagnostics._stored.counts()) == {
        ("outbox", "pending"): 4,
        ("outbox", "publishing"): 0,
        ("outbox", "dead_lettered"): 0,
        ("inbox", "received"): 1,
        ("inbox", "processing"): 0,
        ("inbox", "failed"): 0,
        ("inbox", "dead_lettered"): 0,
    }
    diagnostics.clear()
    assert diagnostics._stored.counts() == []


@ON_ONE_DATABASE
async def test_the_first_sample_comes_at_once_and_a_stopped_process_is_silent(
    ready: AsyncEngine,
) -> None:
    service = housekeeping(ready, RelayOptions(diagnostics_interval_seconds=3600))
    task = asyncio.create_task(service.run())
    await eventually(service.diagnostics._stored.counts)
    service.stop()
    await asyncio.wait_for(task, 10)
    assert service.diagnostics._stored.counts() == []


@ON_ONE_DATABASE
async def test_the_dead_queues_of_the_broker_are_counted_and_its_outage_hides_nothing_else(
    ready: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    class DeadQueues:
        away = False

        async def count_dead(self, consumers: Sequence[str]) -> dict[str, int]:
            if self.away:
                raise BrokerUnavailableError("away")
            return dict.fromkeys(consumers, 2)

    broker = DeadQueues()
    diagnostics = Diagnostics(
        ready,
        OutboxStore(outbox),
        InboxStore(inbox),
        provider="rabbitmq",
        broker=broker,  # type: ignore[arg-type]
        consumers=["billing", "shipping"],
    )
    await diagnostics.sample()
    broker.away = True
    await diagnostics.sample()
    assert _values(diagnostics._stored.counts())["dead_queue", "dead_lettered"] == 4
    assert diagnostics.dead_deliveries == {"billing": 2, "shipping": 2}
    assert "could not be counted" in caplog.text


@ON_ONE_DATABASE
async def test_a_chore_that_fails_is_logged_counted_and_goes_on(
    ready: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Counting):
        async def _work(self) -> bool:
            await super()._work()
            if self.done == 1:
                raise ZeroDivisionError("a defect")
            return False

    failing = Failing(ready)
    task = failing.start()
    await eventually(lambda: failing.done >= 2)
    assert failing.chore.health.restarts == 1
    assert failing.chore.health.last_error == "ZeroDivisionError"
    await eventually(lambda: failing.chore.health.failing_since is None)
    failing.stop.request()
    await asyncio.wait_for(task, 10)
    assert "ZeroDivisionError" in caplog.text


def _values(observations: Sequence[Observation]) -> dict[tuple[object, object], float]:
    found: dict[tuple[object, object], float] = {}
    for observation in observations:
        attributes = observation.attributes or {}
        found[attributes["queue"], attributes["state"]] = observation.value
    return found


async def _left(engine: AsyncEngine, **counts: int) -> bool:
    for name, table in (("outbox", outbox), ("inbox", inbox)):
        query = select(func.count()).select_from(table)
        if await run_step(engine, lambda c, query=query: c.execute(query).scalar_one()) != counts[name]:
            return False
    return True
