"""The topology on RabbitMQ: declared, or looked at without changing anything."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from relay.broker import ConsumerBinding, TopologyPart
from relay.kombu_broker.amqp_link import AmqpLink
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.fault import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, ChannelFault
from relay.kombu_broker.names import TopologyNames

_FIRST_WITH_DELIVERY_LIMIT: Final = 4


class AmqpTopology:
    """Exchange, dead-letter exchange, and per consumer a queue, its dead queue and its bindings."""

    def __init__(self, connector: Connector, link: AmqpLink) -> None:
        self._names = TopologyNames(connector.options)
        self._quorum = connector.options.quorum_queues
        self._link = link
        self._channel = link.channel()

    def declare(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Create what is missing and leave the rest as it is."""
        return self._parts(bindings, create=True)

    def check(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Look only. RabbitMQ has no question for bindings: theirs is `unknown` where the queue is there."""
        return self._parts(bindings, create=False)

    def _parts(self, bindings: Sequence[ConsumerBinding], *, create: bool) -> list[TopologyPart]:
        names = self._names
        parts = [
            self._exchange(names.exchange, "topic", create=create),
            self._exchange(names.dead_exchange, "direct", create=create),
        ]
        for binding in sorted(bindings, key=lambda each: each.consumer):
            queue, dead = names.queue(binding.consumer), names.dead_queue(binding.consumer)
            parts.append(self._queue(dead, self._dead_arguments(), create=create))
            parts.append(self._binding(dead, names.dead_exchange, queue, create=create))
            parts.append(self._queue(queue, self._arguments(queue), create=create))
            parts += [
                self._binding(queue, names.exchange, key, create=create)
                for key in sorted(binding.routing_keys)
            ]
        return parts

    def _arguments(self, queue: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "x-queue-type": "quorum" if self._quorum else "classic",
            "x-dead-letter-exchange": self._names.dead_exchange,
            "x-dead-letter-routing-key": queue,
        }
        if self._quorum:  # a dead-lettered message is confirmed in the dead queue before it leaves this one
            arguments["x-dead-letter-strategy"] = "at-least-once"
            arguments["x-overflow"] = "reject-publish"
        return arguments

    def _dead_arguments(self) -> dict[str, Any]:
        if not self._quorum:
            return {"x-queue-type": "classic"}
        version = str(self._link.amqp.server_properties.get("version", "0")).partition(".")[0]
        if version.isdigit() and int(version) >= _FIRST_WITH_DELIVERY_LIMIT:
            # from version 4 a quorum queue drops what was looked at and put back twenty times
            return {"x-queue-type": "quorum", "x-delivery-limit": -1}
        return {"x-queue-type": "quorum"}

    def _exchange(self, name: str, kind: str, *, create: bool) -> TopologyPart:
        def declare(*, passive: bool) -> None:
            self._channel.exchange_declare(name, kind, passive=passive, durable=True, auto_delete=False)

        return self._part("exchange", name, declare, create=create)

    def _queue(self, name: str, arguments: dict[str, Any], *, create: bool) -> TopologyPart:
        def declare(*, passive: bool) -> None:
            self._channel.queue_declare(
                name, passive=passive, durable=True, auto_delete=False, arguments=arguments
            )

        return self._part("queue", name, declare, create=create)

    def _part(self, kind: str, name: str, declare: Callable[..., None], *, create: bool) -> TopologyPart:
        present = True
        try:
            declare(passive=True)
        except ChannelFault as error:
            if error.reply_code != NOT_FOUND:
                raise
            present = False
        if not present and not create:
            return TopologyPart(kind, name, "missing")
        try:
            declare(passive=False)  # of what is there: compares, and changes nothing
        except ChannelFault as error:
            if error.reply_code == PRECONDITION_FAILED:
                return TopologyPart(kind, name, "differs", str(error.reply_text))
            if error.reply_code == ACCESS_REFUSED and present:
                return TopologyPart(kind, name, "present", "not compared: no right to configure it")
            raise
        return TopologyPart(kind, name, "present" if present else "declared")

    def _binding(self, queue: str, exchange: str, key: str, *, create: bool) -> TopologyPart:
        name = f"{exchange} -> {queue}: {key}"
        try:
            if create:
                self._channel.queue_bind(queue, exchange, key)
                return TopologyPart("binding", name, "declared")
            self._channel.queue_declare(queue, passive=True)
        except ChannelFault as error:
            if error.reply_code != NOT_FOUND:
                raise
            return TopologyPart("binding", name, "missing")
        return TopologyPart("binding", name, "unknown", "RabbitMQ does not tell; declaring it is harmless")
