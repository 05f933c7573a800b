"""The names of a topology, and the rules they obey."""

from collections.abc import Iterable
from typing import Final

from relay.broker import ConsumerBinding, TopologyError
from relay.kombu_broker.options import BrokerOptions
from uow.text import TextError, check_consumer_name, check_queue_name, check_routing_key

_DEAD: Final = ".dead"


class TopologyNames:
    """Exchange and queue names for one broker; every name that it gives has been checked."""

    def __init__(self, options: BrokerOptions) -> None:
        self.exchange = options.exchange
        self.dead_exchange = f"{options.exchange}{_DEAD}"
        self._prefix = options.queue_prefix

    def queue(self, consumer: str) -> str:
        """The consumer's queue, `{prefix}.{consumer}`. Raises TopologyError when it cannot be a name.

        It is at most 240 bytes, and does not end in `.dead`, which marks the dead queue of another.
        """
        try:
            check_consumer_name(consumer)
            name = check_queue_name(self._prefix, consumer)
        except TextError as error:
            raise TopologyError(f"consumer {consumer!r}: {error}") from error
        if name.endswith(_DEAD):
            raise TopologyError(
                f"consumer {consumer!r}: a consumer name must not end in {_DEAD!r}, dead queues are named so"
            )
        return name

    def dead_queue(self, consumer: str) -> str:
        """Where the consumer's rejected messages are kept, `{queue}.dead`."""
        return f"{self.queue(consumer)}{_DEAD}"

    def check(self, bindings: Iterable[ConsumerBinding]) -> None:
        """Raises TopologyError for the first consumer or routing key that cannot be a name."""
        for binding in bindings:
            self.queue(binding.consumer)
            for key in binding.routing_keys:
                try:
                    check_routing_key(key)
                except TextError as error:
                    raise TopologyError(f"consumer {binding.consumer!r}: {error}") from error
