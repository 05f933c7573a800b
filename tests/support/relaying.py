"""Outboxes with events in them, and an outlet whose verdicts a test decides."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, MetaData, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.table import add_inbox_table
from outbox.options import OutboxOptions
from outbox.store import OutboxStore
from outbox.table import add_outbox_table
from relay.broker import BrokerUnavailableError, PublishResult, Verdict
from relay.options import RelayOptions
from relay.publishing.publisher import OutboxRelay
from uow.event import Event
from uow.message import Message
from uow.sql.lease import add_lease_table
from uow.sql.step import run_step

metadata = MetaData()
outbox = add_outbox_table(metadata)
inbox = add_inbox_table(metadata)
leases = add_lease_table(metadata)

CONFIRMED = PublishResult(Verdict.CONFIRMED)
UNSENT = PublishResult(Verdict.UNSENT)
UNKNOWN = PublishResult(Verdict.UNKNOWN)
QUICK = RelayOptions(poll_interval_seconds=0.1, stop_grace_seconds=5, outage_pause_seconds=0.2)

Behaviour = Callable[[Sequence[Message]], Awaitable[Sequence[PublishResult]]]


def make_message(name: str = "orders.placed", *, ordering_key: str | None = None) -> Message:
    """An event as the outbox stores it."""
    event = Event()
    payload = json.dumps({"id": str(event.id), "occurred_at": str(event.occurred_at)})
    return Message(
        id=event.id,
        contract_name=name,
        contract_version=1,
        occurred_at=event.occurred_at,
        payload=payload,
        ordering_key=ordering_key,
    )


async def fill(engine: AsyncEngine, count: int, *, name: str = "orders.placed") -> list[Message]:
    """Store `count` events; returns them in their order."""
    messages = [make_message(name) for _ in range(count)]
    store = OutboxStore(outbox)
    for begin in range(0, count, 500):
        part = messages[begin : begin + 500]
        await run_step(engine, lambda connection, part=part: store.append(connection, part))
    return messages


async def outbox_states(engine: AsyncEngine) -> Counter[str]:
    """How many rows of the outbox stand in each state."""
    query = select(outbox.c.state)
    return Counter(await run_step(engine, lambda c: c.execute(query).scalars().all()))


async def all_published(engine: AsyncEngine, count: int) -> bool:
    """Whether exactly `count` rows are there and all are published."""
    return await outbox_states(engine) == {"published": count}


async def outbox_rows(engine: AsyncEngine) -> dict[UUID, Mapping[str, object]]:
    """The rows of the outbox by event id."""
    rows = await run_step(engine, lambda c: c.execute(select(outbox)).mappings().all())
    return {row["event_id"]: row for row in rows}


async def set_columns(engine: AsyncEngine, **values: object) -> None:
    """Change columns of all outbox rows, for a past that a test cannot wait for."""
    await run_step(engine, lambda c: c.execute(update(outbox).values(values)))


async def confirm(messages: Sequence[Message]) -> Sequence[PublishResult]:
    """A broker in good health."""
    return [CONFIRMED] * len(messages)


class ScriptedOutlet:
    """Takes the batches of a relay and answers as the test says, if it is `reachable`."""

    provider = "scripted"

    def __init__(self, behaviour: Behaviour = confirm) -> None:
        self.behaviour = behaviour
        self.reachable = True
        self.checks = 0
        self.batches: list[list[Message]] = []
        self.closed = False

    @property
    def sent(self) -> list[UUID]:
        """The ids of all messages that were sent, in order."""
        return [message.id for batch in self.batches for message in batch]

    async def check(self) -> None:
        self.checks += 1
        if not self.reachable:
            raise BrokerUnavailableError("the scripted broker is away")

    async def send(self, messages: Sequence[Message]) -> Sequence[PublishResult]:
        self.batches.append(list(messages))
        return await self.behaviour(messages)

    def hand_over(self, connection: Connection, messages: Sequence[Message]) -> Mapping[UUID, PublishResult]:
        return {}

    def handed_over(self) -> None: ...

    async def close(self) -> None:
        self.closed = True


class Gate:
    """A behaviour that holds each batch until the test lets it go."""

    def __init__(self, behaviour: Behaviour = confirm) -> None:
        self._behaviour = behaviour
        self.entered = asyncio.Semaphore(0)
        self._open = asyncio.Semaphore(0)

    async def __call__(self, messages: Sequence[Message]) -> Sequence[PublishResult]:
        self.entered.release()
        await self._open.acquire()
        return await self._behaviour(messages)

    def open(self, batches: int = 1) -> None:
        for _ in range(batches):
            self._open.release()


def make_relay(
    engine: AsyncEngine,
    outlet: ScriptedOutlet,
    *,
    outbox_options: OutboxOptions | None = None,
    options: RelayOptions = QUICK,
) -> OutboxRelay:
    """A relay with quick polling."""
    return OutboxRelay(engine, OutboxStore(outbox, options=outbox_options), outlet, options=options)


@contextlib.asynccontextmanager
async def running(*services: OutboxRelay) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Services that run inside the block and are stopped gracefully at its end."""
    tasks = [asyncio.create_task(service.run()) for service in services]
    try:
        yield tasks
    finally:
        for service in services:
            service.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 20)
