"""Publishing to RabbitMQ: mandatory, persistent, with pipelined confirms and a verdict on each message."""

import contextlib
import struct
import time
from collections.abc import Iterable
from typing import Any, Final

import amqp.exceptions
import amqp.serialization
from amqp import spec

from relay.broker import Verdict
from relay.kombu_broker.amqp_link import AmqpLink
from relay.kombu_broker.arrival import amqp_message
from relay.kombu_broker.batch import Batch
from relay.kombu_broker.confirms import Confirms
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.fault import (
    ACCESS_REFUSED,
    FAULTS,
    NOT_FOUND,
    ChannelFault,
    ConnectionLost,
    describe_fault,
    lost,
    refusal_code,
)

_READ_EVERY: Final = 64
_REFUSALS_IN_A_ROW: Final = 3
_CACHED_KEYS: Final = 1_000
_UNENCODABLE: Final = (
    struct.error,
    ValueError,
    TypeError,
    OverflowError,
    amqp.exceptions.FrameSyntaxError,
)


class AmqpPublishing:
    """One connection and one channel in confirm mode, owned by one thread."""

    def __init__(self, connector: Connector, name: str) -> None:
        options = connector.options
        self._exchange = options.exchange
        self._window = options.unconfirmed_limit
        self._question_seconds = options.connect_timeout_seconds
        self._routing: dict[str, Any] = {}
        self._confirms = Confirms()
        self._proven = False
        self._link = AmqpLink(connector, name)
        try:
            self._questions = self._link.channel()
            self._channel = self._link.channel()
            self._channel.events["basic_ack"].add(self._confirms.on_ack)
            self._channel.events["basic_nack"].add(self._confirms.on_nack)
            self._channel.events["basic_return"].add(self._on_return)
            self._channel.confirm_select()
        except FAULTS as error:
            self._link.cut()
            raise lost(error) from None

    def fileno(self) -> int | None:
        """The socket to wait on between batches."""
        return self._link.fileno()

    def idle(self) -> None:
        """Between batches, about once a second: heartbeats and what the broker has to say."""
        with _as_lost():
            self._link.beat()
            self._link.read(0.0)

    def publish(self, batch: Batch, deadline: float, *, one_at_a_time: bool = False) -> None:
        """Send what has no verdict and wait for verdicts until the deadline (`time.monotonic()`).

        Messages that are still without a verdict at the end got none in time. Raises ConnectionLost.
        """
        with _as_lost():
            if not self._ready(batch, deadline):
                return
            self._link.bound_waits(max(deadline - time.monotonic(), self._question_seconds))
            if one_at_a_time:
                self._isolate(batch, list(batch.open_positions()), deadline)
                return
            while self._send_open(batch, deadline):
                pass
            if self._link.blocked:
                batch.give_up("broker_blocked", "the broker takes no messages now (connection.blocked)")
            elif len(self._confirms):
                raise ConnectionLost("the broker did not confirm in time", error_code="confirm_timeout")

    def culprit(self, batch: Batch) -> int | None:
        """The one message of `batch` that waits for a confirm, when it is only one."""
        suspects = self._confirms.positions(batch)
        return suspects[0] if len(suspects) == 1 else None

    def close(self) -> None:
        """Close in good order, bounded."""
        self._link.close()

    def cut(self) -> None:
        """Drop the connection."""
        self._link.cut()

    def _ready(self, batch: Batch, deadline: float) -> bool:
        """Whether the broker listens and has the exchange; asked before anything is written.

        The question costs one round trip a batch. It finds a connection that died while idle when the
        messages are surely not sent, and a missing exchange before it closes the channel on a full batch.
        """
        self._link.read(0.0)
        while self._link.blocked and time.monotonic() < deadline:
            self._link.read_until(deadline)
        if self._link.blocked:
            batch.give_up("broker_blocked", "the broker takes no messages now (connection.blocked)")
            return False
        self._link.bound_waits(max(min(self._question_seconds, deadline - time.monotonic()), 0.01))
        try:
            self._questions.exchange_declare(self._exchange, "topic", passive=True)
        except ChannelFault as error:
            if error.reply_code != NOT_FOUND:
                raise
            batch.give_up("exchange_missing", f"exchange {self._exchange!r} is missing; declare the topology")
            return False
        return True

    def _send_open(self, batch: Batch, deadline: float) -> bool:
        """Send pipelined; whether messages are left over and there is time to send them."""
        try:
            self._pipeline(batch, list(batch.open_positions()), deadline)
        except ChannelFault as error:
            suspects = self._confirms.positions(batch)
            self._rearm()
            if error.reply_code == NOT_FOUND:
                detail = f"exchange {self._exchange!r} went missing; declare the topology"
                batch.give_up("exchange_missing", detail)
                return False
            if len(suspects) == 1:
                self._blame(batch, suspects[0], error)
            else:
                self._isolate(batch, suspects, deadline)
        in_time = time.monotonic() < deadline and not self._link.blocked
        return in_time and next(batch.open_positions(), None) is not None

    def _pipeline(self, batch: Batch, positions: Iterable[int], deadline: float) -> None:
        for count, position in enumerate(positions, start=1):
            self._write(batch, position)
            if not self._proven:
                # alone on a new connection: one that the broker blocks, or that leads nowhere, takes one
                # message into doubt and not a window of them
                self._wait_below(1, deadline)
                self._proven = not len(self._confirms)
            elif len(self._confirms) >= self._window:
                self._wait_below(max(self._window // 2, 1), deadline)
            elif count % _READ_EVERY == 0:
                self._link.read(0.0)
            if self._link.blocked or time.monotonic() >= deadline:
                break
        self._wait_below(1, deadline)

    def _isolate(self, batch: Batch, positions: Iterable[int], deadline: float) -> None:
        """Send one at a time, so that what closes the channel is known for sure."""
        refusals = 0
        for position in positions:
            if time.monotonic() >= deadline or self._link.blocked:
                return
            try:
                self._write(batch, position)
                self._wait_below(1, deadline)
                refusals = 0
            except ChannelFault as error:
                self._rearm()
                self._blame(batch, position, error)
                refusals = refusals + 1 if error.reply_code in {ACCESS_REFUSED, NOT_FOUND} else 0
                if refusals == _REFUSALS_IN_A_ROW:
                    batch.give_up("access_refused", describe_fault(error))
                    return

    def _blame(self, batch: Batch, position: int, error: Any) -> None:
        match error.reply_code:
            case 403:  # rights are set by people; an outage for this message, none of its making
                batch.judge(position, Verdict.UNSENT, "access_refused", describe_fault(error))
            case 404:
                batch.judge(position, Verdict.UNSENT, "exchange_missing", describe_fault(error))
            case _:
                batch.judge(position, Verdict.REFUSED, refusal_code(error), describe_fault(error))

    def _write(self, batch: Batch, position: int) -> None:
        wire = batch.wire(position)
        batch.written(position)
        try:
            arguments = self._routing_arguments(wire.routing_key)
            message: Any = amqp_message(wire.body, wire.headers, wire.properties)
            # the frame writer itself: Channel.basic_publish reads the socket before each message
            self._link.amqp.frame_writer(1, self._channel.channel_id, spec.Basic.Publish, arguments, message)
        except _UNENCODABLE as error:  # py-amqp encodes all before it writes a byte
            batch.judge(position, Verdict.REFUSED, "refused", f"cannot be encoded: {type(error).__name__}")
        else:
            self._confirms.sent(batch, position, message.properties["message_id"])

    def _routing_arguments(self, routing_key: str) -> Any:
        known = self._routing.get(routing_key)
        if known is None:
            if len(self._routing) >= _CACHED_KEYS:
                self._routing.clear()
            known = amqp.serialization.dumps("Bssbb", (0, self._exchange, routing_key, True, False))
            self._routing[routing_key] = known
        return known

    def _wait_below(self, limit: int, deadline: float) -> None:
        while len(self._confirms) >= limit and time.monotonic() < deadline:
            self._link.read_until(deadline)

    def _rearm(self) -> None:
        """py-amqp has reopened the channel by itself; put it into confirm mode, count from 1."""
        self._confirms.restart()
        self._channel.confirm_select()

    def _on_return(self, _error: Any, _exchange: str, _routing_key: str, message: Any) -> None:
        self._confirms.on_return(message.properties.get("message_id"))


@contextlib.contextmanager
def _as_lost() -> Any:
    try:
        yield
    except FAULTS as error:
        raise lost(error) from None
