"""Events inside someone else's commit: staged when enqueued, written in one statement before COMMIT."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from outbox.errors import EventConflictError
from outbox.store import OutboxStore
from uow.contracts import Contracts
from uow.event import IntegrationEvent
from uow.message import Message
from uow.participant import Staged
from uow.telemetry import TraceContext, capture_trace
from uow.text import check_ordering_key


class OutboxParticipant:
    """Lets a unit of work enqueue events; give it to the unit as one of its participants.

    contracts: the registered event classes. capture_trace: what a message carries of the moment it is
    enqueued. on_committed: told after each commit that stored events, to wake relays; must not block.
    One participant serves all units of a process.
    """

    def __init__(
        self,
        contracts: Contracts,
        store: OutboxStore,
        *,
        capture_trace: Callable[[], TraceContext] = capture_trace,
        on_committed: Callable[[], None] | None = None,
    ) -> None:
        self._contracts = contracts
        self._store = store
        self._capture_trace = capture_trace
        self._on_committed = on_committed

    def accepts(self, item: object) -> bool:
        """Anything with an `id` and an `occurred_at`; whether its class is registered is told by `stage`."""
        return isinstance(item, IntegrationEvent)

    def stage(self, item: object, *, ordering_key: str | None = None, **options: object) -> Staged:
        """Serialize the event now and take the trace of this moment.

        ordering_key (not blank, at most 200 UTF-16 units) goes before the key that the contract gives.
        Raises UnregisteredEventError, ValueRefusedError, BodyTooLargeError or TextError naming the field.
        """
        if options:
            raise TypeError(f"an event takes the option ordering_key, not {', '.join(sorted(options))}")
        encoded = self._contracts.encode(item, maximum_body_bytes=self._store.options.maximum_body_bytes)
        trace = self._capture_trace()
        message = replace(
            encoded,
            correlation_id=trace.correlation_id,
            traceparent=trace.traceparent,
            tracestate=trace.tracestate,
            ordering_key=encoded.ordering_key if ordering_key is None else check_ordering_key(ordering_key),
        )
        return Staged(key=message.id, content=_content(message), value=message)

    def conflict(self, staged: Staged, earlier: Staged) -> EventConflictError:
        """The error for one event id enqueued twice in one unit, saying different things."""
        return EventConflictError.between(staged.value, earlier.value)

    def write(self, connection: Connection, staged: Sequence[Staged]) -> str | None:
        """Insert all events; returns the transaction's id where inserting tells it.

        Raises EventConflictError when an earlier unit stored other content under one of the ids.
        """
        return self._store.append(connection, [each.value for each in staged]).transaction_id

    def committed(self, staged: Sequence[Staged]) -> None:
        """Wake the relays."""
        if self._on_committed is not None:
            self._on_committed()


def _content(message: Message) -> tuple[str, int, int, str]:
    """What `Message.same_content` compares."""
    return message.contract_name, message.contract_version, message.occurred_at.ticks, message.payload
