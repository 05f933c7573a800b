"""What a broker needs of its driver; there is one for RabbitMQ and one for kombu's emulated transports."""

from collections.abc import Sequence
from typing import Protocol

from relay.broker import ConsumerBinding, DeadDelivery, TopologyPart
from relay.kombu_broker.publisher import Publishing
from relay.kombu_broker.subscription import OpenConsuming


class Topology(Protocol):
    """Exchange, queues and bindings behind one open connection."""

    def declare(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Create what is missing."""
        ...

    def check(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Look only."""
        ...


class DeadQueue(Protocol):
    """Dead queues behind one open connection."""

    def count(self, consumers: Sequence[str]) -> dict[str, int]:
        """How many messages wait, by consumer."""
        ...

    def list(self, consumer: str, limit: int) -> list[DeadDelivery]:
        """The first messages, left where they are."""
        ...

    def requeue(self, consumer: str, limit: int) -> int:
        """Move messages back to the consumer's queue; how many."""
        ...

    def drop(self, consumer: str, limit: int) -> int:
        """Remove messages for ever; how many."""
        ...


class Visit(Protocol):
    """One short-lived connection for a question or an operator's act, owned by one thread."""

    @property
    def topology(self) -> Topology:
        """Its topology."""
        ...

    @property
    def dead_queue(self) -> DeadQueue:
        """Its dead queues."""
        ...

    @property
    def faults(self) -> tuple[type[Exception], ...]:
        """What this transport raises for an outage."""
        ...

    def close(self) -> None:
        """Close the connection; bounded."""
        ...


class Driver(Protocol):
    """Opens connections of one kind; everything may raise ConnectionLost or BrokerUnavailableError."""

    def publishing(self, name: str) -> Publishing:
        """A connection to publish on."""
        ...

    def consuming(self, binding: ConsumerBinding, *, prefetch: int, name: str) -> OpenConsuming:
        """What opens, again and again, a connection that consumes this consumer's queue."""
        ...

    def visit(self, name: str) -> Visit:
        """A connection for a question."""
        ...

    def learn(self, bindings: Sequence[ConsumerBinding]) -> None:
        """These bindings are meant to be; matters where the transport keeps none itself."""
        ...
