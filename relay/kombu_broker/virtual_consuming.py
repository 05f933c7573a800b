"""Consuming on kombu's emulated transports: on its event loop where they have one, else by looking."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, assert_never

from kombu.asynchronous import Hub

from relay.broker import ConsumerBinding, Delivery, Disposition
from relay.kombu_broker.arrival import DEAD_REASON_HEADER, properties_of, virtual_delivery
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.fault import ConnectionLost, describe_fault, lost
from relay.kombu_broker.traits import Drive
from relay.kombu_broker.virtual_channel import VirtualChannel
from relay.kombu_broker.wake_pipe import WakePipe

logger = logging.getLogger(__name__)

_TAG: Final = "selfmanaged"
_BINDING_CHECK_SECONDS: Final = 5.0
_BURST: Final = 200


class VirtualConsuming:
    """One connection and one consumer on one queue of an emulated transport, owned by one thread.

    `held` maps tags to messages that are out. A connection that takes over from a lost one is given what
    the lost one held as `left_over`, and returns it to the queue first.
    """

    def __init__(
        self,
        connector: Connector,
        binding: ConsumerBinding,
        *,
        name: str,
        prefetch: int,
        generation: int,
        deliver: Callable[[list[Delivery]], None],
        wake: WakePipe,
        bindings: Iterable[ConsumerBinding],
        left_over: dict[Any, Any],
    ) -> None:
        self._generation = generation
        self._deliver = deliver
        self._wake = wake
        self._pause_seconds = connector.options.poll_interval_seconds
        self.held: dict[Any, Any] = {}
        self._arrived: list[Delivery] = []
        self._stopping = False
        self._virtual = VirtualChannel(connector, name, bindings)
        self._queue = self._virtual.queue(binding.consumer)
        self._dead_queue = self._virtual.dead_queue(binding.consumer)
        self._hub: Any = None
        try:
            self._check_binding()
            self._require_binding()
            self._restore(left_over)
            channel = self._virtual.channel
            channel.basic_qos(prefetch_count=prefetch)
            channel.basic_consume(self._queue, False, self._on_message, _TAG)
            if connector.traits.drive is Drive.EVENTED:
                self._hub = self._event_loop(wake)
        except self._virtual.faults as error:
            self._virtual.close()
            raise lost(error) from None

    @property
    def healthy(self) -> bool:
        """Whether the queue is bound and being consumed."""
        return self._bound and not self._stopping

    def wait(self) -> None:
        """Wait for deliveries or the wake pipe and hand over what came."""
        try:
            if self._hub is not None:
                self._hub.run_once()
            elif not self._look():
                self._wake.wait(self._pause_seconds)
            if time.monotonic() >= self._check_due:
                self._check_binding()
        except self._virtual.faults as error:
            raise lost(error) from None
        finally:
            self._hand_over()

    def settle(self, settlements: Sequence[tuple[Any, Disposition]]) -> None:
        """Acknowledge, return, or put into the dead queue and then acknowledge."""
        try:
            for tag, disposition in settlements:
                if tag in self.held:
                    self._settle_one(tag, disposition)
                    del self.held[tag]
        except self._virtual.faults as error:
            raise lost(error) from None

    def stop(self) -> None:
        """Cancel the consumer; a message that was under way is returned by kombu or by us."""
        self._stopping = True
        try:
            self._virtual.channel.basic_cancel(_TAG)
        except self._virtual.faults as error:
            raise lost(error) from None

    def close(self) -> None:
        """Return what is held and close; what could not be returned stays in `held`."""
        self._stopping = True
        try:
            if self._hub is None:
                self._virtual.channel.basic_cancel(_TAG)
            # else kombu waits for what Redis was asked for last, and hands it to us to be returned
            for tag in list(self.held):
                self._virtual.channel.basic_reject(tag, requeue=True)
                del self.held[tag]
        except self._virtual.faults_of_a_torn_connection as error:
            # the transport is gone; the next connection returns what is left in `held`
            logger.info("%d deliveries are not returned yet: %s", len(self.held), describe_fault(error))
        finally:
            self._virtual.close()
            if self._hub is not None:
                self._hub.close()

    def _settle_one(self, tag: Any, disposition: Disposition) -> None:
        channel = self._virtual.channel
        match disposition:
            case Disposition.ACKNOWLEDGE:
                channel.basic_ack(tag)
            case Disposition.RETURN:
                channel.basic_reject(tag, requeue=True)
            case Disposition.REJECT:
                self._put(self._dead_queue, self.held[tag], {DEAD_REASON_HEADER: "rejected"})
                channel.basic_ack(tag)
            case _:
                assert_never(disposition)

    def _put(self, queue: str, message: Any, headers: dict[str, Any]) -> None:
        self._virtual.put(
            queue,
            message.body,
            headers={**message.headers, **headers},
            properties=properties_of(message),
        )

    def _restore(self, left_over: dict[Any, Any]) -> None:
        restore_by_tag = getattr(self._virtual.channel.qos, "restore_by_tag", None)  # Redis has it in store
        for tag in list(left_over):
            if restore_by_tag is not None:
                restore_by_tag(tag)
            else:
                self._put(self._queue, left_over[tag], {})
            del left_over[tag]

    def _event_loop(self, wake: WakePipe) -> Any:
        hub: Any = Hub()
        hub.propagate_errors = self._virtual.faults
        self._virtual.connection.register_with_event_loop(hub)
        hub.add_reader(wake.fileno(), wake.drain)
        return hub

    def _look(self) -> bool:
        """Take what is there, as far as prefetch allows; whether there was anything."""
        for taken in range(_BURST):
            try:
                self._virtual.connection.drain_events(timeout=0)
            except TimeoutError:
                return taken > 0
        return True

    def _check_binding(self) -> None:
        self._bound = any(queue == self._queue for _, _, queue in self._virtual.bindings())
        self._check_due = time.monotonic() + _BINDING_CHECK_SECONDS

    def _require_binding(self) -> None:
        if not self._bound:
            raise ConnectionLost(f"queue {self._queue!r} is not bound; declare the topology")

    def _on_message(self, message: Any) -> None:
        if self._stopping:
            self._virtual.channel.basic_reject(message.delivery_tag, requeue=True)
            return
        self.held[message.delivery_tag] = message
        self._arrived.append(virtual_delivery(message, self._generation))

    def _hand_over(self) -> None:
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            self._deliver(arrived)
