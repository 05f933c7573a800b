"""A topology of its own for each test, on every kind of broker that is reachable."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from kombu import Connection

from relay.broker import Broker, ConsumerBinding, Delivery, Publisher, PublishResult, Subscription, Verdict
from relay.kombu_broker import BrokerOptions, open_broker
from relay.kombu_broker.address import parse_address
from tests.support import services
from uow.backoff import Backoff
from uow.event import Event
from uow.message import Message

CONSUMER = "billing"
KEY = "orders.placed.v1"


@dataclass(frozen=True)
class BrokerKind:
    """One broker that the suite runs over, and what differs between them.

    many: messages that are a load, and still pass within a second.
    ordered: a queue is first in, first out. connected: there is a connection that can be cut.
    limited: a queue can be told to turn messages away. keeps_bindings: also after the process.
    """

    name: str
    service: services.Service | None = None
    many: int = 100
    quorum: bool = False
    ordered: bool = True
    connected: bool = False
    limited: bool = False
    keeps_bindings: bool = True

    def url(self, directory: Path) -> str:
        if self.service is not None:
            return self.service.require()
        if self.name == "sqlalchemy":
            return f"sqla+sqlite:///{directory / 'broker.db'}"
        return f"filesystem://{directory}" if self.name == "filesystem" else f"{self.name}://"


RABBITMQ = BrokerKind("rabbitmq", services.RABBITMQ, many=1000, connected=True, limited=True)
RABBITMQ_QUORUM = BrokerKind("rabbitmq-quorum", services.RABBITMQ, quorum=True, connected=True, limited=True)
REDIS = BrokerKind("redis", services.REDIS, many=300, connected=True)
MEMORY = BrokerKind("memory")
FILESYSTEM = BrokerKind("filesystem", ordered=False)
SQLALCHEMY = BrokerKind("sqlalchemy", keeps_bindings=False)
KINDS = (MEMORY, FILESYSTEM, REDIS, RABBITMQ)
WITH_QUORUM = (*KINDS, RABBITMQ_QUORUM)
ALL_KINDS = (*WITH_QUORUM, SQLALCHEMY)


def make_message(name: str = "orders.placed", *, payload: str | None = None, **fields: Any) -> Message:
    """An event as the outbox stores it."""
    event = Event()
    return Message(
        id=event.id,
        contract_name=name,
        contract_version=1,
        occurred_at=event.occurred_at,
        payload=payload or f'{{"id":"{event.id}","occurred_at":"{event.occurred_at}","name":"Zoë 😀"}}',
        **fields,
    )


@dataclass
class BrokerGround:
    """A broker with names that no other test uses."""

    kind: BrokerKind
    url: str
    options: BrokerOptions
    broker: Broker
    consumers: set[str] = field(default_factory=set)

    def binding(self, consumer: str = CONSUMER, *keys: str) -> ConsumerBinding:
        self.consumers.add(consumer)
        return ConsumerBinding(consumer=consumer, routing_keys=frozenset(keys or (KEY,)))

    async def declare(self, consumer: str = CONSUMER, *keys: str) -> ConsumerBinding:
        """A consumer's queue, declared and bound."""
        binding = self.binding(consumer, *keys)
        await self.broker.declare_topology([binding])
        return binding

    def another(self, url: str | None = None, **changes: Any) -> Broker:
        """A second broker of the same topology, as another process would open it."""
        return open_broker(url or self.url, changed(self.options, **changes))

    async def delete_queue(self, consumer: str = CONSUMER) -> None:
        """Take the consumer's queue and its bindings away behind everybody's back."""

        def delete(channel: Any) -> None:
            if self.kind.service is not services.RABBITMQ:  # kombu deletes the bindings that it knows
                channel.exchange_declare(exchange=self.options.exchange, type="topic", durable=True)
                channel.queue_bind(
                    queue=self.queue(consumer), exchange=self.options.exchange, routing_key=KEY
                )
            channel.queue_delete(self.queue(consumer))

        await asyncio.to_thread(self._administer, delete)

    async def delete_exchange(self) -> None:
        """Take the exchange away."""
        await asyncio.to_thread(
            self._administer, lambda channel: channel.exchange_delete(self.options.exchange)
        )

    async def administer(self, work: Callable[[Any], Any]) -> Any:
        """Do `work` with a py-amqp channel of the server."""
        return await asyncio.to_thread(self._administer, work)

    def queue(self, consumer: str = CONSUMER) -> str:
        return f"{self.options.queue_prefix}.{consumer}"

    def _administer(self, work: Callable[[Any], Any]) -> Any:
        with Connection(self.url, transport_options=self.address_options()) as connection:
            return work(connection.default_channel)

    def address_options(self) -> dict[str, Any]:
        """What kombu has to be told besides the URL."""
        return dict(parse_address(self.url).transport_options)

    def clean(self) -> None:
        """Leave nothing on the server."""
        if self.kind.service is services.RABBITMQ:
            self._administer(self._delete_everything)
        elif self.kind.service is services.REDIS:
            with Connection(self.url) as connection:
                client = connection.default_channel.client
                for pattern in (self.options.exchange, self.options.queue_prefix):
                    for key in client.scan_iter(f"*{pattern}*", count=1000):
                        client.delete(key)

    def _delete_everything(self, channel: Any) -> None:
        for consumer in self.consumers:
            channel.queue_delete(self.queue(consumer))
            channel.queue_delete(f"{self.queue(consumer)}.dead")
        channel.exchange_delete(self.options.exchange)
        channel.exchange_delete(f"{self.options.exchange}.dead")


def changed(options: BrokerOptions, **changes: Any) -> BrokerOptions:
    """These options with changes."""
    names = BrokerOptions.__dataclass_fields__
    return BrokerOptions(**{name: getattr(options, name) for name in names} | changes)


@contextlib.asynccontextmanager
async def broker_ground(
    kind: BrokerKind, directory: Path, *, url: str | None = None, **changes: Any
) -> AsyncIterator[BrokerGround]:
    """A broker of this kind with unique names, cleaned up at the end."""
    name = f"test-{uuid4().hex[:12]}"
    options = changed(
        BrokerOptions(
            exchange=name,
            queue_prefix=name,
            quorum_queues=kind.quorum,
            confirm_timeout_seconds=5,
            connect_timeout_seconds=2,
            heartbeat_seconds=2,
            close_timeout_seconds=5,
            poll_interval_seconds=0.01,
            reconnect=Backoff(initial_seconds=0.05, maximum_seconds=0.2),
            # how long an idle Redis consumer waits at a time, and therefore how long it takes to close
            transport_options={"polling_interval": 0.1} if kind is REDIS else {},
        ),
        **changes,
    )
    url = url or kind.url(directory)
    ground = BrokerGround(kind, url, options, open_broker(url, options))
    try:
        yield ground
    finally:
        await ground.broker.close()
        await asyncio.to_thread(ground.clean)


async def publish(publisher: Publisher, *messages: Message) -> list[PublishResult]:
    """Publish and expect that all are confirmed."""
    results = list(await publisher.publish(messages))
    assert [result.verdict for result in results] == [Verdict.CONFIRMED] * len(messages), results
    return results


async def receive(subscription: Subscription, count: int, *, timeout: float = 10.0) -> list[Delivery]:
    """Exactly `count` deliveries."""
    received: list[Delivery] = []
    async with asyncio.timeout(timeout):
        while len(received) < count:
            received += await subscription.receive(count - len(received))
    return received


async def nothing_comes(subscription: Subscription, *, seconds: float = 0.2) -> None:
    """Nothing is delivered, as far as a short wait can tell."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            raise AssertionError(f"delivered: {await subscription.receive(10)}")


def ids(deliveries: Sequence[Delivery]) -> list[str]:
    """Message ids of deliveries."""
    return [str(delivery.properties["message_id"]) for delivery in deliveries]


def hex_ids(messages: Sequence[Message]) -> list[str]:
    """Message ids as they stand on the wire."""
    return [message.id.hex for message in messages]
