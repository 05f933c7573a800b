"""`local:` - no broker at all: the outbox hands its events to the inbox of the same database."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from inbox.store import InboxStore
from relay.broker import ConsumerBinding, PublishResult, Verdict
from uow.message import Message
from uow.telemetry import ConsumeOutcome, Operation, record_operation

LOCAL_URL: Final = "local:"
PROVIDER: Final = "local"

_CONFIRMED: Final = PublishResult(Verdict.CONFIRMED)


class LocalOutlet:
    """Stores one receipt for each subscribed consumer in the transaction that settles the outbox rows.

    So nothing can be lost between the two. The pump of the inbox runs the handlers; `wake` (such as a
    CommitSignal of the inbox's channel) tells it to look. An event that no consumer is bound to is
    unroutable; one whose id is stored with other content is refused as `conflicting_content`.
    """

    def __init__(
        self, inbox: InboxStore, bindings: Sequence[ConsumerBinding], *, wake: Callable[[], None]
    ) -> None:
        self._inbox = inbox
        self._wake = wake
        self._absorbed: Counter[str] = Counter()
        self._consumers: dict[str, list[str]] = {}
        for binding in bindings:
            for routing_key in binding.routing_keys:
                self._consumers.setdefault(routing_key, []).append(binding.consumer)

    @property
    def provider(self) -> str:
        """`local`."""
        return PROVIDER

    async def check(self) -> None:
        """Nothing to reach."""

    async def send(self, messages: Sequence[Message]) -> Sequence[PublishResult]:
        """Who is subscribed; the messages themselves are written by `hand_over`."""
        return [self._route(message) for message in messages]

    def hand_over(self, connection: Connection, messages: Sequence[Message]) -> Mapping[UUID, PublishResult]:
        """Store the receipts of all messages; a constant number of statements."""
        deliveries = [
            (consumer, message)
            for message in messages
            for consumer in self._consumers.get(message.routing_key, ())
        ]
        report = self._inbox.record(connection, deliveries)
        # Anew at each call: a transaction that is run again has recorded nothing before.
        self._absorbed = Counter(key.consumer for key in report.known)
        conflicts: dict[UUID, list[str]] = {}
        for key in report.conflicts:
            conflicts.setdefault(key.message_id, []).append(key.consumer)
        return {message_id: _conflict(consumers) for message_id, consumers in conflicts.items()}

    def handed_over(self) -> None:
        """Wake the pumps, and count what receipts absorbed."""
        self._wake()
        absorbed, self._absorbed = self._absorbed, Counter()
        for consumer, count in absorbed.items():
            record_operation(
                operation=Operation.CONSUME,
                outcome=ConsumeOutcome.DUPLICATE,
                seconds=0.0,
                provider=PROVIDER,
                consumer=consumer,
                count=count,
            )

    async def close(self) -> None:
        """Nothing to close."""

    def _route(self, message: Message) -> PublishResult:
        if message.routing_key in self._consumers:
            return _CONFIRMED
        return PublishResult(
            Verdict.REFUSED, "unroutable", f"no consumer of this App is subscribed to {message.routing_key}"
        )


def _conflict(consumers: Sequence[str]) -> PublishResult:
    return PublishResult(
        Verdict.REFUSED,
        "conflicting_content",
        f"the inbox holds other content under this id, at {', '.join(sorted(consumers))}",
    )
