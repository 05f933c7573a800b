"""The topology on kombu's emulated transports: bindings, as far as the transport keeps them."""

from collections.abc import Sequence

from relay.broker import ConsumerBinding, TopologyPart
from relay.kombu_broker.names import TopologyNames
from relay.kombu_broker.virtual_channel import VirtualChannel


class VirtualTopology:
    """A queue is there when it is bound; the exchange, when anything is bound to it.

    Some transports (SQLAlchemy, SQS ...) keep no bindings: there each process knows only the bindings that
    were declared or checked through it, and these are always present.
    """

    def __init__(self, exchange: str, channel: VirtualChannel, names: TopologyNames) -> None:
        self._exchange_name = exchange
        self._channel = channel
        self._names = names

    def declare(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Create what is missing and leave the rest as it is."""
        before = {(part.kind, part.name): part.status for part in self.check(bindings)}
        for binding in bindings:
            self._channel.bind(binding)
        return [
            part
            if before[(part.kind, part.name)] == part.status or part.status != "present"
            else TopologyPart(part.kind, part.name, "declared")
            for part in self.check(bindings)
        ]

    def check(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Look only."""
        bound = {(key, queue) for key, _, queue in self._channel.bindings()}
        queues = {queue for _, queue in bound}
        parts = [TopologyPart("exchange", self._exchange_name, _status(bool(bound)))]
        for binding in sorted(bindings, key=lambda each: each.consumer):
            name, stored = self._names.queue(binding.consumer), self._channel.queue(binding.consumer)
            parts.append(TopologyPart("queue", name, _status(stored in queues)))
            parts += [
                TopologyPart(
                    "binding", f"{self._exchange_name} -> {name}: {key}", _status((key, stored) in bound)
                )
                for key in sorted(binding.routing_keys)
            ]
        return parts


def _status(present: bool) -> str:
    return "present" if present else "missing"
