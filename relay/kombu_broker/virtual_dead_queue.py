"""Dead queues on kombu's emulated transports, which know no dead-lettering: we keep them ourselves."""

from collections.abc import Sequence
from typing import Any

from relay.broker import DeadDelivery
from relay.kombu_broker.arrival import properties_of, virtual_delivery
from relay.kombu_broker.dead_delivery import dead_delivery, without_death
from relay.kombu_broker.virtual_channel import VirtualChannel


class VirtualDeadQueue:
    """The dead queues behind one connection."""

    def __init__(self, channel: VirtualChannel) -> None:
        self._channel = channel

    def count(self, consumers: Sequence[str]) -> dict[str, int]:
        """How many messages wait, by consumer."""
        return {consumer: self._count(consumer) for consumer in consumers}

    def list(self, consumer: str, limit: int) -> list[DeadDelivery]:
        """The first messages. The whole queue is turned over once, so that its order stays."""
        listed: list[DeadDelivery] = []
        for position in range(1, self._count(consumer) + 1):
            message = self._next(consumer)
            if message is None:
                break
            if position <= limit:
                delivery = virtual_delivery(message, 0)
                listed.append(
                    dead_delivery(position, consumer, delivery.body, delivery.headers, delivery.properties)
                )
            self._put(self._channel.dead_queue(consumer), message, message.headers)
            self._channel.channel.basic_ack(message.delivery_tag)
        return listed

    def requeue(self, consumer: str, limit: int) -> int:
        """Move messages back; each is in the queue before it leaves the dead queue."""
        for moved in range(limit):
            message = self._next(consumer)
            if message is None:
                return moved
            self._put(self._channel.queue(consumer), message, without_death(message.headers))
            self._channel.channel.basic_ack(message.delivery_tag)
        return limit

    def drop(self, consumer: str, limit: int) -> int:
        """Remove messages for ever."""
        for dropped in range(limit):
            message = self._next(consumer)
            if message is None:
                return dropped
            self._channel.channel.basic_ack(message.delivery_tag)
        return limit

    def _count(self, consumer: str) -> int:
        declared = self._channel.channel.queue_declare(queue=self._channel.dead_queue(consumer))
        return int(declared.message_count)

    def _next(self, consumer: str) -> Any:
        return self._channel.channel.basic_get(self._channel.dead_queue(consumer))

    def _put(self, queue: str, message: Any, headers: dict[str, Any]) -> None:
        self._channel.put(queue, message.body, headers=headers, properties=properties_of(message))
