"""Consuming from RabbitMQ on kombu's event loop."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kombu.asynchronous import Hub

from relay.broker import Delivery, Disposition
from relay.kombu_broker.acknowledgement import OutstandingTags
from relay.kombu_broker.amqp_link import AmqpLink
from relay.kombu_broker.arrival import amqp_delivery
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.fault import FAULTS, ConnectionLost, lost
from relay.kombu_broker.wake_pipe import WakePipe

_BEAT_SECONDS: Final = 1.0
_QUORUM_FLUSH_SECONDS: Final = 0.1
_HANDED_OVER_TOGETHER: Final = 64


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
        self._torn = False
        self._acknowledged_since_cancel = False
        self._quorum = connector.options.quorum_queues
        self._link = AmqpLink(connector, name)
        self._hub: Any = Hub()
        try:
            with self._losing():
                self._hub.propagate_errors = FAULTS
                self._channel = self._link.channel()
                self._channel.basic_qos(0, prefetch, False)
                self._tag = self._channel.basic_consume(queue, callback=self._on_message)
                self._hub.add_reader(self._link.fileno(), self._on_readable)
                self._hub.add_reader(wake.fileno(), wake.drain)
                self._hub.call_repeatedly(_BEAT_SECONDS, self._link.beat)
        except ConnectionLost:
            self.close()
            raise

    @property
    def healthy(self) -> bool:
        """Whether the consumer stands."""
        return not self._stopping

    def wait(self) -> None:
        """One turn of the event loop; deliveries that came together are handed over together."""
        try:
            with self._losing():
                if self._link.holds_back:
                    self._on_readable()
                else:
                    self._hub.run_once()
        finally:
            self._hand_over()

    def settle(self, settlements: Sequence[tuple[Any, Disposition]]) -> None:
        """Reject and return first, so that an acknowledgement up to a tag covers none of them."""
        first_words: dict[Any, Disposition] = {}
        for tag, disposition in settlements:
            first_words.setdefault(tag, disposition)
        acknowledged = []
        with self._losing():
            for tag, disposition in first_words.items():
                if disposition is Disposition.ACKNOWLEDGE:
                    acknowledged.append(tag)
                elif self._outstanding.take(tag):
                    self._channel.basic_reject(tag, requeue=disposition is Disposition.RETURN)
            plan = self._outstanding.acknowledge(acknowledged)
            if plan.up_to is not None:
                self._channel.basic_ack(plan.up_to, multiple=True)
            for tag in plan.single:
                self._channel.basic_ack(tag)
        self._acknowledged_since_cancel |= bool(acknowledged)

    def stop(self) -> None:
        """Cancel the consumer; what was under way when the broker heard it is returned."""
        self._stopping = True
        self._cancel()
        self._hand_over()

    def close(self) -> None:
        """Close the connection; the broker takes back what is not settled."""
        if not self._torn:
            with contextlib.suppress(ConnectionLost):
                self._flush_acknowledgements()
        self._hub.close()
        self._link.close()

    def _flush_acknowledgements(self) -> None:
        """See that the queue has the acknowledgements before the channel goes.

        RabbitMQ hands those of a quorum queue on in portions, and forgets what waits when the channel
        closes; two thirds of 200 were seen to come again. Cancelling is answered by the queue itself, after
        all that was sent before. When that has been done already, only time is left.
        """
        if not self._stopping:
            self._stopping = True
            self._cancel()
        elif self._quorum and self._acknowledged_since_cancel:
            time.sleep(_QUORUM_FLUSH_SECONDS)

    def _cancel(self) -> None:
        with self._losing():
            self._channel.basic_cancel(self._tag)
        self._acknowledged_since_cancel = False

    @contextlib.contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            self._torn = True
            raise lost(error) from None

    def _on_readable(self) -> None:
        self._link.read(0.0, limit=_HANDED_OVER_TOGETHER)

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
