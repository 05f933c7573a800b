"""Consumers with real receivers, and a broker in memory that shows what it was told."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import Column, Integer, String, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from inbox.context import HandlerContext
from inbox.handlers import Consumer
from inbox.options import ConsumerOptions, InboxOptions
from inbox.participant import ReceiptParticipant
from inbox.receiver import Receiver
from inbox.store import InboxStore
from outbox.participant import OutboxParticipant
from outbox.store import OutboxStore
from relay.broker import BrokerUnavailableError, ConsumerBinding, Delivery, Disposition
from relay.consuming.host import ConsumerHost
from relay.consuming.hosted import HostedConsumer
from relay.consuming.rejected import RejectedDelivery
from relay.options import RelayOptions
from relay.wire import encode_wire
from tests.support.relaying import QUICK, inbox, metadata, outbox
from uow.contracts import Contracts
from uow.event import Event
from uow.message import Message
from uow.sql.step import run_step
from uow.unit import SelfManagedUnitOfWork
from uow.wake import WakeSignal


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    order: int


effect = Table(
    "effect",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("order", Integer, nullable=False),
    Column("process", String(20), nullable=False),
)
"""What handlers write for the business: one row for each time they were committed."""

contracts = Contracts()
contracts.register(OrderPlaced, name="orders.placed", version=1)

PLACED = frozenset({"orders.placed.v1"})
LEASE = InboxOptions(
    lease_seconds=30, busy_recheck_seconds=0.05, busy_wait_limit_seconds=0.2, prefetch=8, concurrency=4
)
SHORT_LEASE = replace(LEASE, lease_seconds=1)


def placed(order: int) -> Message:
    """The message of one OrderPlaced."""
    return contracts.encode(OrderPlaced(order=order), maximum_body_bytes=1000)


class MemorySubscription:
    """Deliveries of one consumer; `settled` says what became of each, in order."""

    def __init__(self, prefetch: int) -> None:
        self.healthy = True
        self.closed = False
        self.settled: list[tuple[UUID | str, Disposition]] = []
        self.outstanding = 0
        self.most_outstanding = 0
        self._prefetch = prefetch
        self._queue: deque[Delivery] = deque()
        self._change = asyncio.Condition()
        self._receiving = True

    async def put(self, *messages: Message) -> None:
        """Deliver these."""
        for message in messages:
            wire = encode_wire(message)
            await self.put_raw(wire.body, wire.headers, {**wire.properties}, handle=message.id)

    async def put_raw(
        self, body: bytes, headers: dict[str, object], properties: dict[str, object], *, handle: UUID | str
    ) -> None:
        """Deliver something of any kind."""
        async with self._change:
            self._queue.append(
                Delivery(
                    body=body,
                    content_type=str(properties.get("content_type")),
                    headers=headers,
                    properties=properties,
                    redelivered=False,
                    handle=handle,
                )
            )
            self._change.notify_all()

    def dispositions(self, message: Message | str) -> list[Disposition]:
        """What the broker was told about this message."""
        handle = message if isinstance(message, str) else message.id
        return [disposition for settled, disposition in self.settled if settled == handle]

    async def receive(self, limit: int) -> list[Delivery]:
        async with self._change:
            await self._change.wait_for(
                lambda: (self._queue and self._receiving and self.outstanding < self._prefetch) or self.closed
            )
            if self.closed:
                raise BrokerUnavailableError("closed")
            count = min(limit, self._prefetch - self.outstanding, len(self._queue))
            self.outstanding += count
            self.most_outstanding = max(self.most_outstanding, self.outstanding)
            return [self._queue.popleft() for _ in range(count)]

    def settle(self, delivery: Delivery, disposition: Disposition) -> None:
        assert not self.closed, "settled after the channel was closed"
        self.outstanding -= 1
        self.settled.append((delivery.handle, disposition))

    async def stop_receiving(self) -> None:
        self._receiving = False

    async def close(self) -> None:
        self.closed = True


class MemoryBroker:
    """As much of a broker as a ConsumerHost uses."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, MemorySubscription] = {}

    async def open_subscription(self, binding: ConsumerBinding, *, prefetch: int) -> MemorySubscription:
        return self.subscriptions.setdefault(binding.consumer, MemorySubscription(prefetch))


def hosted(
    engine: AsyncEngine, consumer: Consumer, *, options: InboxOptions = LEASE, store: InboxStore | None = None
) -> HostedConsumer:
    """A consumer with a real receiver on this database."""
    receipts = store or InboxStore(inbox, options=options)
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    participants = (OutboxParticipant(contracts, OutboxStore(outbox)), ReceiptParticipant(receipts))
    receiver = Receiver(
        consumer,
        engine=engine,
        unit_of_work=lambda: SelfManagedUnitOfWork(sessions, participants),
        store=receipts,
        contracts=contracts,
        options=options,
    )
    return HostedConsumer(
        binding=ConsumerBinding(consumer=consumer.name, routing_keys=PLACED),
        receiver=receiver,
        options=options.overridden_by(consumer.options),
    )


class Hosting:
    """A host that runs, its broker, and what it rejected."""

    def __init__(
        self,
        engine: AsyncEngine,
        *consumers: Consumer,
        options: InboxOptions = LEASE,
        relay: RelayOptions = QUICK,
        with_broker: bool = True,
    ) -> None:
        self.broker = MemoryBroker()
        self.rejected: list[RejectedDelivery] = []
        self.store = InboxStore(inbox, options=options)
        self.wake = WakeSignal()
        self.host = ConsumerHost(
            engine,
            self.store,
            [hosted(engine, consumer, options=options, store=self.store) for consumer in consumers],
            lease_seconds=options.lease_seconds,
            broker=self.broker if with_broker else None,  # type: ignore[arg-type]
            wake=self.wake,
            options=relay,
            rejected=self.rejected.append,
        )

    @property
    def queue(self) -> MemorySubscription:
        """The subscription of the only consumer."""
        return next(iter(self.broker.subscriptions.values()))


@contextlib.asynccontextmanager
async def hosting(
    engine: AsyncEngine,
    *consumers: Consumer,
    options: InboxOptions = LEASE,
    relay: RelayOptions = QUICK,
    with_broker: bool = True,
) -> AsyncIterator[Hosting]:
    """A host inside the block, stopped gracefully at its end."""
    running = Hosting(engine, *consumers, options=options, relay=relay, with_broker=with_broker)
    task = asyncio.create_task(running.host.run())
    await asyncio.sleep(0)
    try:
        yield running
    finally:
        running.host.stop()
        await asyncio.wait_for(task, 30)


class Recorder:
    """A consumer that notes which orders it handled; `hold` lets its handlers wait."""

    def __init__(self, name: str = "billing", *, options: ConsumerOptions | None = None) -> None:
        self.consumer = Consumer(name, options=options)
        self.started: list[int] = []
        self.finished: list[int] = []
        self.cancelled: list[int] = []
        self.most_at_once = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self.fail: set[int] = set()
        self._at_once = 0
        self.consumer.handles(OrderPlaced)(self._handle)

    async def _handle(self, event: OrderPlaced, context: HandlerContext) -> None:
        self.started.append(event.order)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await self.hold.wait()
            if event.order in self.fail:
                raise RuntimeError("this order cannot be handled")
        except asyncio.CancelledError:
            self.cancelled.append(event.order)
            raise
        finally:
            self._at_once -= 1
        self.finished.append(event.order)


async def receipt_states(engine: AsyncEngine, consumer: str = "billing") -> dict[UUID, str]:
    """The state of each receipt of a consumer."""
    query = select(inbox.c.message_id, inbox.c.state).where(inbox.c.consumer == consumer)
    return {row[0]: row[1] for row in await run_step(engine, lambda c: c.execute(query).all())}


async def all_in_state(engine: AsyncEngine, state: str, messages: Sequence[Message]) -> bool:
    """Whether the receipts of exactly these messages are there, all in this state."""
    return await receipt_states(engine) == {message.id: state for message in messages}


def writing_consumer(process: str, *, before: Callable[[OrderPlaced], Awaitable[None]]) -> Consumer:
    """A consumer that writes one effect for each order, after `before` has let it."""
    consumer = Consumer("billing")

    @consumer.handles(OrderPlaced)
    async def write(event: OrderPlaced, context: HandlerContext) -> None:
        await before(event)
        await context.session.execute(insert(effect).values(order=event.order, process=process))

    return consumer


async def effects(engine: AsyncEngine) -> list[tuple[int, str]]:
    """The committed effects: order and process, in the order of the orders."""
    query = select(effect.c.order, effect.c.process).order_by(effect.c.order)
    return [(row[0], row[1]) for row in await run_step(engine, lambda c: c.execute(query).all())]
