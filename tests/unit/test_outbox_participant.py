"""What a unit of work stages for an event: its serialized content, the trace of the moment, the key."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import MetaData

from outbox import EventConflictError, OutboxOptions, OutboxParticipant, OutboxStore, add_outbox_table
from uow.contracts import BodyTooLargeError, Contracts, UnregisteredEventError
from uow.event import Event
from uow.telemetry import TraceContext
from uow.text import TextError
from uow.ticks import UtcInstant

TRACE = TraceContext(correlation_id="c", traceparent="p", tracestate="s")


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    customer: str = "Zoë"


@dataclass(frozen=True, kw_only=True)
class Unknown(Event):
    pass


def _participant(
    ordering_key: Callable[[OrderPlaced], str | None] | None = None, **options: Any
) -> OutboxParticipant:
    contracts = Contracts()
    contracts.register(OrderPlaced, name="orders.placed", version=1, ordering_key=ordering_key)
    store = OutboxStore(add_outbox_table(MetaData()), options=OutboxOptions(maximum_body_bytes=200))
    options.setdefault("capture_trace", lambda: TRACE)
    return OutboxParticipant(contracts, store, **options)


def test_the_trace_of_the_moment_goes_with_the_event() -> None:
    message = _participant().stage(OrderPlaced()).value
    assert (message.correlation_id, message.traceparent, message.tracestate) == ("c", "p", "s")


def test_the_key_given_goes_before_the_key_of_the_contract() -> None:
    by_customer = _participant(lambda event: event.customer)
    assert by_customer.stage(OrderPlaced()).value.ordering_key == "Zoë"
    assert by_customer.stage(OrderPlaced(), ordering_key="mine").value.ordering_key == "mine"
    assert _participant().stage(OrderPlaced()).value.ordering_key is None


def test_an_ordering_key_has_200_utf16_units_at_most() -> None:
    participant = _participant()
    participant.stage(OrderPlaced(), ordering_key="😀" * 100)
    for key in ("😀" * 100 + "x", "", " ", "a\x00", "\udc00"):
        with pytest.raises(TextError, match="ordering_key"):
            participant.stage(OrderPlaced(), ordering_key=key)


def test_a_body_over_the_limit_is_refused_when_it_is_enqueued() -> None:
    participant = _participant()
    room = 200 - len(participant.stage(OrderPlaced(customer="")).value.payload.encode())
    participant.stage(OrderPlaced(customer="x" * room))
    with pytest.raises(BodyTooLargeError, match="takes 201 UTF-8 bytes"):
        participant.stage(OrderPlaced(customer="x" * (room + 1)))


def test_equal_content_is_equal_whatever_the_trace_and_the_key() -> None:
    traces = iter([TRACE, TraceContext()])
    participant = _participant(capture_trace=lambda: next(traces))
    event = OrderPlaced()
    first, second = participant.stage(event), participant.stage(event, ordering_key="k")
    assert first.key == second.key == event.id
    assert first.content == second.content


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"customer": "Zoe"}, "payload"),
        ({"occurred_at": UtcInstant(639_028_224_000_000_001)}, "occurred_at"),
    ],
)
def test_one_id_with_other_content_is_a_conflict(change: dict[str, Any], field: str) -> None:
    participant = _participant()
    same: dict[str, Any] = {"id": uuid4(), "occurred_at": UtcInstant(639_028_224_000_000_000)}
    first, second = (participant.stage(OrderPlaced(**(same | more))) for more in ({}, change))
    assert first.content != second.content
    error = participant.conflict(second, first)
    assert isinstance(error, EventConflictError)
    assert error.event_id == same["id"]
    assert field in error.differs


def test_anything_with_an_identity_and_a_time_is_accepted_and_strangers_are_told() -> None:
    participant = _participant()
    assert participant.accepts(OrderPlaced())
    assert participant.accepts(Unknown())
    assert not participant.accepts("text")
    assert not participant.accepts(UUID(int=1))
    with pytest.raises(UnregisteredEventError, match="Unknown is not registered"):
        participant.stage(Unknown())


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="orderingkey"):
        _participant().stage(OrderPlaced(), orderingkey="x")  # type: ignore[call-arg]


def test_relays_are_woken_after_a_commit() -> None:
    woken: list[str] = []
    participant = _participant(on_committed=lambda: woken.append("woken"))
    staged = participant.stage(OrderPlaced())
    assert woken == []
    participant.committed([staged])
    assert woken == ["woken"]
    _participant().committed([staged])
