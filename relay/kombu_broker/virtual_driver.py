"""kombu's emulated transports behind a broker."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from relay.broker import ConsumerBinding, Delivery
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.names import TopologyNames
from relay.kombu_broker.subscription import OpenConsuming
from relay.kombu_broker.virtual_channel import VirtualChannel
from relay.kombu_broker.virtual_consuming import VirtualConsuming
from relay.kombu_broker.virtual_dead_queue import VirtualDeadQueue
from relay.kombu_broker.virtual_publishing import VirtualPublishing
from relay.kombu_broker.virtual_topology import VirtualTopology
from relay.kombu_broker.wake_pipe import WakePipe


class VirtualVisit:
    """One connection of an emulated transport for a question."""

    def __init__(self, connector: Connector, name: str, bindings: Iterable[ConsumerBinding]) -> None:
        self._channel = VirtualChannel(connector, name, bindings)
        self._exchange = connector.options.exchange

    @property
    def topology(self) -> VirtualTopology:
        """Its topology."""
        return VirtualTopology(self._exchange, self._channel, self._channel.names)

    @property
    def dead_queue(self) -> VirtualDeadQueue:
        """Its dead queues."""
        return VirtualDeadQueue(self._channel)

    @property
    def faults(self) -> tuple[type[Exception], ...]:
        """What this transport raises for an outage."""
        return self._channel.faults

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


class VirtualDriver:
    """Opens connections of one emulated transport."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._names = TopologyNames(connector.options)
        self._bindings: dict[str, ConsumerBinding] = {}

    def publishing(self, name: str) -> VirtualPublishing:
        """A connection to publish on."""
        return VirtualPublishing(self._connector, name, self._known())

    def consuming(self, binding: ConsumerBinding, *, prefetch: int, name: str) -> OpenConsuming:
        """What opens a connection that consumes this consumer's queue."""
        self._names.queue(binding.consumer)
        return _Successive(self._connector, binding, self._known, prefetch=prefetch, name=name)

    def visit(self, name: str) -> VirtualVisit:
        """A connection for a question."""
        return VirtualVisit(self._connector, name, self._known())

    def learn(self, bindings: Sequence[ConsumerBinding]) -> None:
        """Remember these for transports whose bindings live in each process only."""
        self._bindings = self._bindings | {binding.consumer: binding for binding in bindings}

    def _known(self) -> tuple[ConsumerBinding, ...]:
        return tuple(self._bindings.values())


class _Successive:
    """Opens one connection after another for one subscription; each returns what the lost one held."""

    def __init__(
        self,
        connector: Connector,
        binding: ConsumerBinding,
        known: Callable[[], Sequence[ConsumerBinding]],
        *,
        prefetch: int,
        name: str,
    ) -> None:
        self._connector = connector
        self._binding = binding
        self._known = known
        self._prefetch = prefetch
        self._name = name
        self._left_over: dict[Any, Any] = {}

    def __call__(
        self, *, generation: int, deliver: Callable[[list[Delivery]], None], wake: WakePipe
    ) -> VirtualConsuming:
        consuming = VirtualConsuming(
            self._connector,
            self._binding,
            name=self._name,
            prefetch=self._prefetch,
            generation=generation,
            deliver=deliver,
            wake=wake,
            bindings=self._known(),
            left_over=self._left_over,
        )
        self._left_over = consuming.held
        return consuming
