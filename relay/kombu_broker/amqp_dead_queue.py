"""Dead queues on RabbitMQ: count, list, requeue and drop."""

import time
from collections.abc import Sequence
from typing import Any

from relay.broker import DeadDelivery, TopologyError
from relay.kombu_broker.amqp_link import AmqpLink
from relay.kombu_broker.arrival import amqp_delivery, amqp_message
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.dead_delivery import dead_delivery, without_death
from relay.kombu_broker.fault import NOT_FOUND, ChannelFault, ConnectionLost
from relay.kombu_broker.names import TopologyNames


class AmqpDeadQueue:
    """The dead queues behind one connection; messages are taken one by one and put back by closing."""

    def __init__(self, connector: Connector, link: AmqpLink) -> None:
        self._names = TopologyNames(connector.options)
        self._timeout_seconds = connector.options.confirm_timeout_seconds
        self._link = link
        self._channel = link.channel()
        self._answer: str | None = None

    def count(self, consumers: Sequence[str]) -> dict[str, int]:
        """How many messages wait, by consumer."""
        return {consumer: self._count(self._names.dead_queue(consumer)) for consumer in consumers}

    def list(self, consumer: str, limit: int) -> list[DeadDelivery]:
        """The first messages; closing the connection puts them back where they were."""
        listed: list[DeadDelivery] = []
        for position in range(1, limit + 1):
            message = self._next(consumer)
            if message is None:
                break
            delivery = amqp_delivery(message, 0)
            listed.append(
                dead_delivery(position, consumer, delivery.body, delivery.headers, delivery.properties)
            )
        return listed

    def requeue(self, consumer: str, limit: int) -> int:
        """Move messages back; each is confirmed in the queue before it is acknowledged here."""
        queue = self._names.queue(consumer)
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(lambda _tag, _multiple: self._answered("ack"))
        self._channel.events["basic_nack"].add(lambda _tag, _multiple: self._answered("nack"))
        self._channel.events["basic_return"].add(lambda *_: self._answered("return"))
        for moved in range(limit):
            message = self._next(consumer)
            if message is None:
                return moved
            match self._send(queue, message):
                case "ack":
                    self._channel.basic_ack(message.delivery_tag)
                case "nack":
                    return moved
                case _:
                    raise TopologyError(
                        f"queue {queue!r} is missing; `selfmanaged topology declare` creates it"
                    )
        return limit

    def drop(self, consumer: str, limit: int) -> int:
        """Remove messages for ever."""
        for dropped in range(limit):
            message = self._next(consumer)
            if message is None:
                return dropped
            self._channel.basic_ack(message.delivery_tag)
        return limit

    def _count(self, dead_queue: str) -> int:
        try:
            return int(self._channel.queue_declare(dead_queue, passive=True).message_count)
        except ChannelFault as error:
            if error.reply_code != NOT_FOUND:
                raise
            return 0

    def _next(self, consumer: str) -> Any:
        try:
            return self._channel.basic_get(self._names.dead_queue(consumer))
        except ChannelFault as error:
            if error.reply_code != NOT_FOUND:
                raise
            return None

    def _send(self, queue: str, message: Any) -> str:
        properties = dict(message.properties)
        headers = without_death(properties.pop("application_headers", None) or {})
        self._answer = None
        copy = amqp_message(message.body, headers, properties)
        self._channel.basic_publish(copy, exchange="", routing_key=queue, mandatory=True)
        deadline = time.monotonic() + self._timeout_seconds
        while self._answer is None:
            if time.monotonic() >= deadline:
                raise ConnectionLost("the broker did not confirm in time", error_code="confirm_timeout")
            self._link.read_until(deadline)
        return self._answer

    def _answered(self, answer: str) -> None:
        if self._answer is None:  # a return comes before its ack, and it is the return that counts
            self._answer = answer
