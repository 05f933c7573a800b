"""The subscription: a thread that owns the connection hands deliveries to asyncio and settles them."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from relay.broker import BrokerUnavailableError, Delivery, Disposition
from relay.kombu_broker.arrival import Receipt
from relay.kombu_broker.consuming import Consuming
from relay.kombu_broker.consuming_thread import ConsumingThread
from relay.kombu_broker.options import BrokerOptions
from relay.kombu_broker.waiting import finished
from relay.kombu_broker.wake_pipe import WakePipe

logger = logging.getLogger(__name__)


class OpenConsuming(Protocol):
    """Connects and begins to consume; raises ConnectionLost or BrokerUnavailableError."""

    def __call__(
        self, *, generation: int, deliver: Callable[[list[Delivery]], None], wake: WakePipe
    ) -> Consuming:
        """An open connection whose deliveries carry `generation`."""
        ...


class ThreadedSubscription:
    """A Subscription with a thread and a connection of its own. See `relay.broker.Subscription`.

    All but `settle` and `healthy` belong to the event loop that built it.
    """

    def __init__(self, open_consuming: OpenConsuming, options: BrokerOptions, *, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._buffer: deque[Delivery] = deque()
        self._something = asyncio.Event()
        self._stopped = False
        self.closed = False
        self._close_timeout_seconds = options.close_timeout_seconds + options.connect_timeout_seconds
        self._thread = ConsumingThread(
            open_consuming,
            arrived=lambda deliveries: self._on_loop(self._arrived, deliveries),
            lost=lambda generation: self._on_loop(self._lost, generation),
            reconnect=options.reconnect,
            name=name,
        )
        self._thread.start()

    @property
    def healthy(self) -> bool:
        """Whether it is consuming at this moment."""
        return self._thread.healthy

    async def receive(self, limit: int) -> list[Delivery]:
        """At least one delivery, up to `limit` of those that are there."""
        while not self._buffer:
            if self.closed:
                raise BrokerUnavailableError("the subscription is closed")
            self._something.clear()
            await self._something.wait()
        return [self._buffer.popleft() for _ in range(min(max(limit, 1), len(self._buffer)))]

    def settle(self, delivery: Delivery, disposition: Disposition) -> None:
        """Tell the broker; from any thread, at once."""
        self._thread.settle(delivery.handle, disposition)

    async def stop_receiving(self) -> None:
        """Take no further deliveries and return those that nobody received."""
        if self._stopped:
            return
        self._stopped = True
        self._return_buffer()
        await self._within(self._thread.stop(), "stop receiving")

    async def close(self) -> None:
        """Send what is to be settled, return the rest, close; bounded by the close timeout."""
        if not self.closed:
            self._stopped = self.closed = True
            self._return_buffer()
            self._something.set()
        await self._within(self._thread.close(), "close")

    async def _within(self, done: Future[None], doing: str) -> None:
        limit = self._close_timeout_seconds
        if not await finished(done, limit):
            logger.warning("%s did not %s within %g s and is left behind", self._thread.name, doing, limit)

    def _arrived(self, deliveries: list[Delivery]) -> None:
        if self._stopped:
            for delivery in deliveries:
                self.settle(delivery, Disposition.RETURN)
            return
        self._buffer.extend(deliveries)
        self._something.set()

    def _lost(self, generation: int) -> None:
        """The broker has these again; whoever received them will settle in vain."""
        kept = [each for each in self._buffer if _generation(each) > generation]
        self._buffer.clear()
        self._buffer.extend(kept)

    def _return_buffer(self) -> None:
        while self._buffer:
            self.settle(self._buffer.popleft(), Disposition.RETURN)

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody receives any more
            self._loop.call_soon_threadsafe(call, *arguments)


def _generation(delivery: Delivery) -> int:
    receipt = delivery.handle
    return receipt.generation if isinstance(receipt, Receipt) else 0
