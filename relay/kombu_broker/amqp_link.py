"""One open py-amqp connection on which no wait is unbounded."""

import selectors
import time
from typing import Any, Final

from relay.kombu_broker.connection import Connector, close_quietly
from relay.kombu_broker.fault import ConnectionLost

_LONGEST_SLICE_SECONDS: Final = 1.0
_BEAT_SECONDS: Final = 0.5
_HEARTBEAT_FRAME: Final = 8


class AmqpLink:
    """A connection to RabbitMQ, owned by the thread that opened it.

    `blocked` is set while the broker, short of memory or disk, reads nothing from us.
    """

    def __init__(self, connector: Connector, name: str) -> None:
        options = connector.options
        self._connection = connector.open(name)
        self.amqp: Any = self._connection.connection  # py-amqp has no types
        # kept, because py-amqp's own attribute reconnects by itself once the connection is gone
        self._socket = self.amqp.sock
        self._beaten = time.monotonic()
        self.blocked = False
        self.amqp.on_blocked = self._on_blocked
        self.amqp.on_unblocked = self._on_unblocked
        self.bound_waits(options.connect_timeout_seconds)
        self._close_timeout_seconds = min(options.close_timeout_seconds, options.connect_timeout_seconds)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)

    def fileno(self) -> int:
        """The socket, for whoever waits on several."""
        return int(self._socket.fileno())

    def channel(self) -> Any:
        """A new channel that leaves bodies as they came."""
        channel: Any = self.amqp.channel()
        channel.auto_decode = False
        return channel

    def bound_waits(self, seconds: float) -> None:
        """Let no single read or write take longer than this from now on."""
        self._socket.settimeout(max(seconds, 0.01))

    def read(self, timeout_seconds: float, *, limit: int = 1_000_000) -> None:
        """Wait for something from the broker, at most this long, and dispatch what is there.

        limit: methods to dispatch at most, when others wait to be served between them.
        Raises what the dispatched methods raise: channel and connection errors of py-amqp.
        """
        wait = timeout_seconds
        for _ in range(limit):
            if not self._readable(wait):
                return
            self._read_method()
            wait = 0.0

    @property
    def holds_back(self) -> bool:
        """Whether there are decrypted bytes that no event loop sees (TLS)."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and bool(pending())

    def read_until(self, moment: float) -> None:
        """Like `read`, until the given `time.monotonic()` at most; keeps the heart beating."""
        self.beat()
        self.read(min(max(moment - time.monotonic(), 0.0), _LONGEST_SLICE_SECONDS))

    def beat(self) -> None:
        """Send a heartbeat when one is due; to be called about once a second, more often costs nothing.

        Raises an error of py-amqp when the broker has been silent for two intervals.
        """
        now = time.monotonic()
        if now - self._beaten >= _BEAT_SECONDS:
            self._beaten = now
            self.amqp.heartbeat_tick()

    def close(self) -> None:
        """Close in good order, or cut when the broker does not answer or would not read it."""
        self._selector.close()
        if self.blocked or not self.amqp.connected:
            self.amqp.collect()
        else:
            self.bound_waits(self._close_timeout_seconds)
        close_quietly(self._connection)

    def cut(self) -> None:
        """Drop the connection without a word."""
        self._selector.close()
        self.amqp.collect()
        close_quietly(self._connection)

    def _readable(self, timeout_seconds: float) -> bool:
        if not self.amqp.connected:
            raise ConnectionLost("the connection is closed")
        return self.holds_back or bool(self._selector.select(timeout_seconds))

    def _read_method(self) -> None:
        """One method with its content, or one heartbeat.

        What has begun comes whole: the rest is waited for as long as the socket's timeout allows.
        """
        while True:
            frame = self.amqp.transport.read_frame()
            if self.amqp.on_inbound_frame(frame) or frame[0] == _HEARTBEAT_FRAME:
                return

    def _on_blocked(self, _reason: str) -> None:
        self.blocked = True

    def _on_unblocked(self) -> None:
        self.blocked = False
