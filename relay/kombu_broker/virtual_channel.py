"""A channel of one of kombu's emulated transports, as publisher, subscription and topology share it."""

from collections.abc import Iterable, Mapping
from typing import Any

from kombu.connection import Connection

from relay.broker import ConsumerBinding
from relay.kombu_broker.arrival import STANDARD_PROPERTIES
from relay.kombu_broker.connection import Connector, close_quietly, faults_of
from relay.kombu_broker.fault import lost
from relay.kombu_broker.filesystem_transport import file_name_of
from relay.kombu_broker.names import TopologyNames


class VirtualChannel:
    """One connection and one channel, owned by the thread that opened it.

    Messages are put into each bound queue by its name and not through the exchange: when kombu gives one
    back, it then returns to the queue it came from and not to every queue of that routing key.
    """

    def __init__(self, connector: Connector, name: str, bindings: Iterable[ConsumerBinding] = ()) -> None:
        self.names = TopologyNames(connector.options)
        self.connection: Connection = connector.open(name)
        self.faults = faults_of(self.connection)
        self.faults_of_a_torn_connection: tuple[type[Exception], ...] = (
            *self.faults,
            AttributeError,
            TypeError,
        )
        self._exchange = connector.options.exchange
        self._escaped = connector.address.scheme == "filesystem"
        try:
            self.channel: Any = self.connection.channel()
            self.channel.exchange_declare(exchange=self._exchange, type="topic", durable=True)
            if not connector.traits.shared_bindings:
                for binding in bindings:
                    self.bind(binding)
        except self.faults as error:
            close_quietly(self.connection)
            raise lost(error) from None

    def stored_name(self, queue: str) -> str:
        """The queue's name as this transport can hold it."""
        return file_name_of(queue) if self._escaped else queue

    def queue(self, consumer: str) -> str:
        """The stored name of a consumer's queue."""
        return self.stored_name(self.names.queue(consumer))

    def dead_queue(self, consumer: str) -> str:
        """The stored name of a consumer's dead queue."""
        return self.stored_name(self.names.dead_queue(consumer))

    def bind(self, binding: ConsumerBinding) -> None:
        """Declare the consumer's queue and bind it, durably where the transport keeps its bindings."""
        queue = self.queue(binding.consumer)
        self.channel.queue_declare(queue=queue, durable=True, auto_delete=False)
        for key in sorted(binding.routing_keys):
            self.channel.queue_bind(queue=queue, exchange=self._exchange, routing_key=key)

    def bindings(self) -> list[tuple[str, str, str]]:
        """All bindings of the exchange as they stand now: routing key, pattern, stored queue name."""
        try:
            return [tuple(row) for row in self.channel.get_table(self._exchange)]
        except KeyError:  # another process of this memory deleted the exchange
            return []

    def queues_for(self, routing_key: str, bindings: list[tuple[str, str, str]]) -> list[str]:
        """The stored names of the queues that `bindings` lead to."""
        found = self.channel.typeof(self._exchange).lookup(bindings, self._exchange, routing_key, None)
        return sorted(queue for queue in found if queue)

    def put(
        self,
        queue: str,
        body: bytes,
        *,
        headers: Mapping[str, Any],
        properties: Mapping[str, Any],
        through: Any = None,
    ) -> None:
        """Put one message into a queue, or into the batch `through` which it is sent later."""
        message = self.channel.prepare_message(
            body,
            content_type=properties.get("content_type"),
            content_encoding=properties.get("content_encoding"),
            headers=dict(headers),
            properties={key: properties[key] for key in properties if key in STANDARD_PROPERTIES},
        )
        publish = self.channel.basic_publish if through is None else through.publish
        publish(message, exchange="", routing_key=queue)

    def close(self) -> None:
        """Close channel and connection; bounded by the transport's socket timeouts."""
        close_quietly(self.connection)
