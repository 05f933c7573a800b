"""The broker port: what the relay and the consumers need of a broker, and nothing of how it does it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from uow.errors import FixTheCodeError, TryAgainError
from uow.message import Message


class BrokerAddressError(FixTheCodeError):
    """The broker URL is malformed or names a transport that is unknown or refused; never shows secrets."""


class BrokerUnavailableError(TryAgainError):
    """The broker cannot be reached now; nothing is lost, rows wait in the database."""


class TopologyError(FixTheCodeError):
    """An exchange, queue or binding is missing or differs; run `selfmanaged topology declare`."""


class Verdict(StrEnum):
    """What became of one published message."""

    CONFIRMED = "confirmed"
    """The broker has it, in at least one queue."""
    UNSENT = "unsent"
    """An outage; the message surely did not leave. Costs no attempt; may be sent again at once."""
    UNKNOWN = "unknown"
    """An outage; the message may have arrived. Costs no attempt; the row waits for its lease."""
    RETRY = "retry"
    """The broker turned this message away for now (nack). Costs an attempt."""
    REFUSED = "refused"
    """The broker will never take this message (unroutable, too large, malformed). Permanent."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The verdict on one message; `error_code` and `detail` say why when it was not confirmed."""

    verdict: Verdict
    error_code: str | None = None
    detail: str | None = None


class Publisher(Protocol):
    """Sends batches. One batch at a time; the next `publish` waits for the one before."""

    async def publish(self, messages: Sequence[Message]) -> Sequence[PublishResult]:
        """Send all and wait for the verdicts; one result per message, in the order of `messages`.

        Ends within the confirm timeout plus one reconnect. Never raises for an outage: the results say
        UNSENT or UNKNOWN. One bad message never changes the verdict on another. A cancelled caller leaves
        the batch to be finished behind its back; after `close` everything is UNSENT.

        Error codes: `contract`, `unroutable`, `too_large`, `refused` (REFUSED); `nack` (RETRY);
        `broker_unavailable`, `broker_blocked`, `broker_error`, `exchange_missing`, `access_refused`,
        `connection_lost`, `confirm_timeout`, `closed` (UNSENT or UNKNOWN).
        """
        ...

    async def close(self) -> None:
        """Close the connection; a batch in hand is finished first, within the confirm timeout."""
        ...


class Disposition(StrEnum):
    """What the broker is told about a delivery."""

    ACKNOWLEDGE = "acknowledge"
    REJECT = "reject"
    """To the dead queue of the consumer."""
    RETURN = "return"
    """Back to the queue, for anyone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message as the broker handed it over; `handle` is the subscription's own business."""

    body: bytes
    content_type: str | None
    headers: Mapping[str, Any]
    properties: Mapping[str, Any]
    redelivered: bool
    handle: Any = field(repr=False)


class Subscription(Protocol):
    """Deliveries of one consumer's queue. Reconnects by itself; deliveries of a lost connection are stale."""

    @property
    def healthy(self) -> bool:
        """Whether it is consuming at this moment."""
        ...

    async def receive(self, limit: int) -> list[Delivery]:
        """Wait for at least one delivery and return up to `limit` that are there; never more than prefetch
        are out at once. An outage only makes it wait; after `stop_receiving` nothing comes. Raises
        BrokerUnavailableError only after `close`."""
        ...

    def settle(self, delivery: Delivery, disposition: Disposition) -> None:
        """Tell the broker; returns at once, from any thread; the thread that owns the channel sends it.

        For a delivery of a connection that was lost it does nothing: the broker has it again. A delivery is
        settled once; a second time does nothing.
        """
        ...

    async def stop_receiving(self) -> None:
        """Take no further deliveries; those prefetched and not yet received go back to the broker."""
        ...

    async def close(self) -> None:
        """Send what is to be settled, return the rest, close the connection; bounded in time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerBinding:
    """One consumer's queue and the routing keys it is bound to."""

    consumer: str
    routing_keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopologyPart:
    """One exchange, queue or binding and how it stands.

    status: `present`, `declared` (just now), `missing`, `differs` (it is left as it is), or `unknown`:
    RabbitMQ cannot be asked for a binding. Declaring it again is harmless, and a message without one is
    refused as unroutable.
    """

    kind: str
    name: str
    status: str
    detail: str = ""

    @property
    def stands(self) -> bool:
        """Whether nothing has to be done about it: anything but missing and differs."""
        return self.status not in {"missing", "differs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadDelivery:
    """Metadata of one message in a consumer's dead queue; never its payload."""

    position: int
    """1 is the oldest."""
    consumer: str
    message_id: str | None
    contract_name: str | None
    reason: str | None
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeatures:
    """What a transport can promise.

    confirms: CONFIRMED rests on an answer of the broker itself. mandatory: it returns what no queue is
    bound to (without it the binding is looked up before each publish). survives_kill: a message taken by a
    process that is killed comes back. survives_restart: messages outlive the broker or process.
    dead_queue: rejected deliveries are kept in a dead queue by the broker itself (without it we put them
    there).
    """

    confirms: bool
    mandatory: bool
    survives_kill: bool
    survives_restart: bool
    dead_queue: bool

    @property
    def loses_messages(self) -> bool:
        """Whether an accepted message can be lost by a kill or a restart; for development only."""
        return not (self.survives_kill and self.survives_restart)


class Broker(Protocol):
    """A broker by URL. Building one does no I/O."""

    @property
    def features(self) -> BrokerFeatures:
        """What this transport can promise."""
        ...

    @property
    def display_url(self) -> str:
        """The address without password, fit for logs and people."""
        ...

    async def open_publisher(self) -> Publisher:
        """A publisher with its own thread and connection. Connects lazily: an outage is no error here."""
        ...

    async def open_subscription(self, binding: ConsumerBinding, *, prefetch: int) -> Subscription:
        """A subscription with its own thread and connection. Connects lazily."""
        ...

    async def declare_topology(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Create what is missing; existing things are left as they are. Raises BrokerUnavailableError."""
        ...

    async def check_topology(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Look without changing anything. Raises BrokerUnavailableError."""
        ...

    async def check_connection(self) -> None:
        """Raises BrokerUnavailableError unless the broker answers within a few seconds."""
        ...

    async def count_dead(self, consumers: Sequence[str]) -> dict[str, int]:
        """How many messages each consumer's dead queue holds; 0 when there is none."""
        ...

    async def list_dead(self, consumer: str, *, limit: int) -> list[DeadDelivery]:
        """The first messages of a dead queue, left where they are."""
        ...

    async def requeue_dead(self, consumer: str, *, limit: int) -> int:
        """Move messages from the dead queue back to the consumer's queue; returns how many.

        Each is confirmed in the queue before it leaves the dead queue, so nothing is lost.
        """
        ...

    async def drop_dead(self, consumer: str, *, limit: int) -> int:
        """Remove messages from the dead queue for ever; returns how many."""
        ...

    async def close(self) -> None:
        """Close every connection and thread that is still open."""
        ...
