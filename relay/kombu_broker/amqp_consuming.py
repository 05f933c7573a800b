"""Consuming from RabbitMQ on kombu's event loop."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kombu.asynchronous import Hub

from relay.broker import Delivery, Disposition
from relay.kombu_broker.acknowledgement import OutstandingTags
from relay.kombu_broker.amqp_link import AmqpLink
from relay.kombu_broker.arrival import amqp_delivery
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.fault import FAULTS, lost
from relay.kombu_broker.wake_pipe import WakePipe

_BEAT_SECONDS: Final = 1.0


class AmqpConsuming:
    """One connection, one channel and one consumer on one queue, owned by one thread."""

    def __init__(
        self,
        connector: Connector,
        queue: str,
        *,
        name: str,
        prefetch: int,
        generation: int,
        deliver: Callable[[list[Delivery]], None],
        wake: WakePipe,
    ) -> None:
        self._generation = generation
        self._deliver = deliver
        self._outstanding = OutstandingTags()
        self._arrived: list[Delivery] = []
        self._stopping = False
        self._link = AmqpLink(connector, name)
        self._hub: Any = Hub()
        try:
            self._hub.propagate_errors = FAULTS
            self._channel = self._link.channel()
            self._channel.basic_qos(0, prefetch, False)
            self._tag = self._channel.basic_consume(queue, callback=self._on_message)
            self._hub.add_reader(self._link.fileno(), self._on_readable)
            self._hub.add_reader(wake.fileno(), wake.drain)
            self._hub.call_repeatedly(_BEAT_SECONDS, self._link.beat)
        except FAULTS as error:
            self.close()
            raise lost(error) from None

    @property
    def healthy(self) -> bool:
        """Whether the consumer stands."""
        return not self._stopping

    def wait(self) -> None:
        """One turn of the event loop; deliveries that came together are handed over together."""
        try:
            self._hub.run_once()
        except FAULTS as error:
            raise lost(error) from None
        finally:
            self._hand_over()

    def settle(self, settlements: Sequence[tuple[Any, Disposition]]) -> None:
        """Reject and return first, so that an acknowledgement up to a tag covers none of them."""
        acknowledged = []
        try:
            for tag, disposition in settlements:
                if disposition is Disposition.ACKNOWLEDGE:
                    acknowledged.append(tag)
                elif self._outstanding.take(tag):
                    self._channel.basic_reject(tag, requeue=disposition is Disposition.RETURN)
            plan = self._outstanding.acknowledge(acknowledged)
            if plan.up_to is not None:
                self._channel.basic_ack(plan.up_to, multiple=True)
            for tag in plan.single:
                self._channel.basic_ack(tag)
        except FAULTS as error:
            raise lost(error) from None

    def stop(self) -> None:
        """Cancel the consumer; what was under way when the broker heard it is returned."""
        self._stopping = True
        try:
            self._channel.basic_cancel(self._tag)
        except FAULTS as error:
            raise lost(error) from None
        self._hand_over()

    def close(self) -> None:
        """Close the connection; the broker takes back what is not settled."""
        self._hub.close()
        self._link.close()

    def _on_readable(self) -> None:
        self._link.read(0.0)

    def _on_message(self, message: Any) -> None:
        delivery = amqp_delivery(message, self._generation)
        tag = delivery.handle.tag
        if self._stopping:
            self._channel.basic_reject(tag, requeue=True)
            return
        self._outstanding.add(tag)
        self._arrived.append(delivery)

    def _hand_over(self) -> None:
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            self._deliver(arrived)
