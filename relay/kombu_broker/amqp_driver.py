"""RabbitMQ behind a broker."""

from collections.abc import Callable, Sequence
from functools import partial

from relay.broker import ConsumerBinding, Delivery
from relay.kombu_broker.amqp_consuming import AmqpConsuming
from relay.kombu_broker.amqp_dead_queue import AmqpDeadQueue
from relay.kombu_broker.amqp_link import AmqpLink
from relay.kombu_broker.amqp_publishing import AmqpPublishing
from relay.kombu_broker.amqp_topology import AmqpTopology
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.fault import FAULTS
from relay.kombu_broker.names import TopologyNames
from relay.kombu_broker.subscription import OpenConsuming
from relay.kombu_broker.wake_pipe import WakePipe


class AmqpVisit:
    """One connection to RabbitMQ for a question."""

    faults = FAULTS

    def __init__(self, connector: Connector, name: str) -> None:
        self._connector = connector
        self._link = AmqpLink(connector, name)

    @property
    def topology(self) -> AmqpTopology:
        """Its topology."""
        return AmqpTopology(self._connector, self._link)

    @property
    def dead_queue(self) -> AmqpDeadQueue:
        """Its dead queues."""
        return AmqpDeadQueue(self._connector, self._link)

    def close(self) -> None:
        """Close the connection; what was taken from a queue and not acknowledged goes back."""
        self._link.close()


class AmqpDriver:
    """Opens connections to RabbitMQ."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._names = TopologyNames(connector.options)

    def publishing(self, name: str) -> AmqpPublishing:
        """A connection to publish on."""
        return AmqpPublishing(self._connector, name)

    def consuming(self, binding: ConsumerBinding, *, prefetch: int, name: str) -> OpenConsuming:
        """What opens a connection that consumes this consumer's queue."""
        return partial(
            self._consuming, queue=self._names.queue(binding.consumer), prefetch=prefetch, name=name
        )

    def visit(self, name: str) -> AmqpVisit:
        """A connection for a question."""
        return AmqpVisit(self._connector, name)

    def learn(self, bindings: Sequence[ConsumerBinding]) -> None:
        """Nothing: RabbitMQ keeps its bindings."""

    def _consuming(
        self,
        *,
        queue: str,
        prefetch: int,
        name: str,
        generation: int,
        deliver: Callable[[list[Delivery]], None],
        wake: WakePipe,
    ) -> AmqpConsuming:
        return AmqpConsuming(
            self._connector,
            queue,
            name=name,
            prefetch=prefetch,
            generation=generation,
            deliver=deliver,
            wake=wake,
        )
