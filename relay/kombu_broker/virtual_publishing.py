"""Publishing on kombu's emulated transports: the bindings are looked up, then each queue gets its copy."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from kombu.exceptions import BatchPublishError

from relay.broker import ConsumerBinding, Verdict
from relay.kombu_broker.batch import Batch
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.fault import ChannelFault, describe_fault, lost
from relay.kombu_broker.virtual_channel import VirtualChannel

_PIPELINED: Final = 100
_UNLIMITED: Final = 1_000_000


class VirtualPublishing:
    """One connection of an emulated transport to publish on, owned by one thread.

    Redis takes a hundred messages in one round trip where kombu can pipeline.
    """

    def __init__(self, connector: Connector, name: str, bindings: Iterable[ConsumerBinding]) -> None:
        self._exchange = connector.options.exchange
        self._channel = VirtualChannel(connector, name, bindings)

    def fileno(self) -> int | None:
        """None: between batches nothing comes from these transports."""
        return None

    def idle(self) -> None:
        """Nothing to do: these connections have no heartbeat."""

    def publish(self, batch: Batch, deadline: float, *, one_at_a_time: bool = False) -> None:
        """Give a verdict on each message until the deadline. Raises ConnectionLost."""
        pipelined = getattr(self._channel.channel, "supports_batch_publish", False) and not one_at_a_time
        try:
            bindings = self._channel.bindings()
            if not bindings:
                detail = f"nothing is bound to exchange {self._exchange!r}; declare the topology"
                batch.give_up("exchange_missing", detail)
                return
            routes = self._routed(batch, bindings)
            while time.monotonic() < deadline and (chunk := list(islice(routes, _PIPELINED))):
                if pipelined:
                    self._put_pipelined(batch, chunk)
                else:
                    self._put_each(batch, chunk, deadline)
        except self._channel.faults as error:
            raise lost(error) from None

    def culprit(self, batch: Batch) -> int | None:
        """None: these transports blame no message."""

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def cut(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _routed(
        self, batch: Batch, bindings: list[tuple[str, str, str]]
    ) -> Iterator[tuple[int, Sequence[str]]]:
        known: dict[str, list[str]] = {}
        for position in batch.open_positions():
            key = batch.wire(position).routing_key
            if key not in known:
                known[key] = self._channel.queues_for(key, bindings)
            if known[key]:
                yield position, known[key]
            else:
                batch.judge(position, Verdict.REFUSED, "unroutable", "no queue is bound to its routing key")

    def _put_each(self, batch: Batch, chunk: list[tuple[int, Sequence[str]]], deadline: float) -> None:
        for position, queues in chunk:
            if time.monotonic() >= deadline:
                return
            batch.written(position)
            try:
                self._put(batch, position, queues)
            except ChannelFault as error:  # the transport stands, this one could not be stored
                batch.judge(position, Verdict.UNKNOWN, "broker_error", describe_fault(error))
            else:
                batch.confirm(position)

    def _put_pipelined(self, batch: Batch, chunk: list[tuple[int, Sequence[str]]]) -> None:
        pipeline = self._channel.channel.create_publish_batch(_UNLIMITED)
        try:
            for position, queues in chunk:
                self._put(batch, position, queues, through=pipeline)
            for position, _ in chunk:
                batch.written(position)
            pipeline.flush()
        except BatchPublishError as error:
            cause = error.__cause__
            if cause is None or isinstance(cause, self._channel.connection.connection_errors):
                raise
            for position, _ in chunk:  # Redis answered, but not to all: out of memory, a key of another type
                batch.judge(position, Verdict.UNKNOWN, "broker_error", describe_fault(cause))
        else:
            for position, _ in chunk:
                batch.confirm(position)
        finally:
            pipeline.close()

    def _put(self, batch: Batch, position: int, queues: Sequence[str], *, through: Any = None) -> None:
        wire = batch.wire(position)
        for queue in queues:
            self._channel.put(
                queue,
                wire.body,
                headers=wire.headers,
                properties=wire.properties,
                through=through,
            )
