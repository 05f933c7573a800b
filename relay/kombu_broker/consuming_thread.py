"""The thread of a subscription: connects, consumes, settles, and begins anew after every loss."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from relay.broker import BrokerUnavailableError, Delivery, Disposition
from relay.kombu_broker.arrival import Receipt
from relay.kombu_broker.consuming import Consuming
from relay.kombu_broker.fault import ConnectionLost
from relay.kombu_broker.waiting import finish
from relay.kombu_broker.wake_pipe import WakePipe
from uow.backoff import Backoff

if TYPE_CHECKING:
    from relay.kombu_broker.subscription import OpenConsuming

logger = logging.getLogger(__name__)


class ConsumingThread:
    """Owns the connection of one subscription. `settle`, `stop` and `close` may be called from any thread.

    Each connection is a generation. What belongs to an earlier one is settled in vain: the broker has
    taken it back when that connection was lost.
    """

    def __init__(
        self,
        open_consuming: "OpenConsuming",
        *,
        arrived: Callable[[list[Delivery]], None],
        lost: Callable[[int], None],
        reconnect: Backoff,
        name: str,
    ) -> None:
        self.name = name
        self.healthy = False
        self._open_consuming = open_consuming
        self._arrived = arrived
        self._lost = lost
        self._reconnect = reconnect
        self._wake = WakePipe()
        self._settlements: deque[tuple[Receipt, Disposition]] = deque()
        self._generation = 0
        self._stop_requested = False
        self._close_requested = False
        self._stopped: Future[None] = Future()
        self._closed: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def settle(self, receipt: Receipt, disposition: Disposition) -> None:
        """Have a delivery settled; returns at once."""
        self._settlements.append((receipt, disposition))
        self._wake.wake()

    def stop(self) -> Future[None]:
        """Ask for no further deliveries; done once none can come."""
        self._stop_requested = True
        self._wake.wake()
        return self._stopped

    def close(self) -> Future[None]:
        """Ask to settle what was asked for, to return the rest and to close; done when that is done."""
        self._close_requested = True
        self._wake.wake()
        return self._closed

    def _run(self) -> None:
        short_lives = 0
        try:
            while not self._close_requested:
                if self._stop_requested:
                    finish(self._stopped)  # without a connection nothing can come
                    self._wake.wait(self._reconnect.maximum_seconds)
                    continue
                began = time.monotonic()
                self._live_once()
                lived_long = time.monotonic() - began > self._reconnect.maximum_seconds
                short_lives = 1 if lived_long else short_lives + 1
                self._pause(self._reconnect.delay_seconds(short_lives))
        finally:
            finish(self._stopped)
            self._wake.close()
            finish(self._closed)

    def _live_once(self) -> None:
        """One connection from its opening to its loss."""
        self._generation += 1
        try:
            consuming = self._open_consuming(
                generation=self._generation, deliver=self._arrived, wake=self._wake
            )
        except (ConnectionLost, BrokerUnavailableError) as error:
            logger.warning("%s cannot consume: %s", self.name, error)
            return
        except Exception:
            logger.exception("%s cannot consume", self.name)
            return
        try:
            self._serve(consuming)
        except ConnectionLost as error:
            logger.warning("%s lost its connection: %s", self.name, error)
        except Exception:
            logger.exception("%s gives up its connection", self.name)
        finally:
            self.healthy = False
            consuming.close()
            self._lost(self._generation)

    def _serve(self, consuming: Consuming) -> None:
        stopped = False
        while True:
            closing = self._close_requested  # read before the settlements that were asked for before it
            consuming.settle(self._take_settlements())
            if closing:
                return
            if self._stop_requested and not stopped:
                stopped = True
                consuming.stop()
                self.healthy = False
                finish(self._stopped)
            self.healthy = consuming.healthy
            consuming.wait()

    def _take_settlements(self) -> list[tuple[Any, Disposition]]:
        taken = []
        while self._settlements:
            receipt, disposition = self._settlements.popleft()
            if receipt.generation == self._generation:
                taken.append((receipt.tag, disposition))
        return taken

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not (self._close_requested or self._stop_requested):
            self._wake.wait(left)
