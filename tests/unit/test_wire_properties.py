"""Whatever comes in: a message comes back as it went, and only our errors come out."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from relay.wire import decode_wire, encode_wire
from uow.contracts import ContractError, Contracts, DecodeError
from uow.event import Event
from uow.message import Message
from uow.text import (
    TextError,
    check_contract_name,
    check_correlation_id,
    check_routing_key,
    check_traceparent,
    check_tracestate,
)
from uow.ticks import MAXIMUM_TICKS, UtcInstant

SAFE_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
ANY_TEXT = st.text(st.characters(codec=None), max_size=30)
INSTANTS = st.integers(0, MAXIMUM_TICKS).map(UtcInstant)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)
ANY_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | ANY_TEXT
    | st.decimals()
    | st.uuids()
    | st.binary(max_size=10)
    | st.datetimes()
    | st.datetimes(timezones=st.timezones()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(ANY_TEXT | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


def passes(check: Any, value: str) -> bool:
    """Whether `check` accepts `value`."""
    try:
        check(value)
    except TextError:
        return False
    return True


NAMES = SAFE_TEXT.filter(lambda name: passes(check_contract_name, name))


@dataclass(frozen=True, kw_only=True)
class Anything(Event):
    text: str = ""
    number: int = 0
    share: float = 0.0
    price: Decimal = Decimal(0)
    reference: UUID | None = None
    moment: datetime | None = None
    by_number: dict[int, str] | None = None
    value: Any = None


CONTRACTS = Contracts()
CONTRACTS.register(Anything, name="anything", version=1)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages that may be stored."""
    identity, instant = draw(st.uuids()), draw(INSTANTS)
    fields = {"id": str(identity), "occurred_at": str(instant), "x": draw(SAFE_TEXT)}
    return Message(
        id=identity,
        contract_name=draw(NAMES),
        contract_version=draw(st.integers(1, 2**31 - 1)),
        occurred_at=instant,
        payload=json.dumps(fields, ensure_ascii=draw(st.booleans())),
        correlation_id=draw(st.none() | SAFE_TEXT.filter(lambda text: passes(check_correlation_id, text))),
        traceparent=draw(st.none() | SAFE_TEXT.filter(lambda text: passes(check_traceparent, text))),
        tracestate=draw(st.none() | SAFE_TEXT.filter(lambda text: passes(check_tracestate, text))),
    )


@given(messages().filter(lambda message: passes(check_routing_key, message.routing_key)))
def test_every_message_comes_back_as_it_went(message: Message) -> None:
    wire = encode_wire(message)
    assert decode_wire(wire.body, wire.properties["content_type"], wire.headers, wire.properties) == message
    assert wire.body == message.payload.encode()


WIRE_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.binary(max_size=20)
    | st.lists(st.none())
)
KEYS = st.sampled_from(
    ["ms-contract-name", "ms-contract-version", "ms-occurred-at", "traceparent", "tracestate"]
)
PROPERTIES = st.sampled_from(["message_id", "type", "correlation_id", "content_encoding"])


@given(
    messages(),
    st.dictionaries(KEYS, WIRE_VALUES, max_size=3),
    st.dictionaries(PROPERTIES, WIRE_VALUES, max_size=3),
    st.none() | st.binary(max_size=40) | ANY_JSON.map(lambda value: json.dumps(value).encode()),
)
def test_whatever_a_broker_delivers_only_our_errors_come_out(
    message: Message, headers: dict[str, Any], properties: dict[str, Any], body: bytes | None
) -> None:
    try:
        wire = encode_wire(message)
    except TextError:
        return
    delivered = wire.body if body is None else body
    try:
        found = decode_wire(
            delivered, "application/json", {**wire.headers, **headers}, {**wire.properties, **properties}
        )
    except DecodeError as error:
        assert error.__context__ is None  # noqa: PT017 - one of our errors, or none
    else:
        assert found.payload.encode() == delivered


@given(
    text=ANY_TEXT,
    number=st.integers(),
    share=st.floats(),
    price=st.decimals(),
    reference=st.none() | st.uuids(),
    moment=st.none() | st.datetimes() | st.datetimes(timezones=st.timezones()),
    by_number=st.none() | st.dictionaries(st.integers(), ANY_TEXT, max_size=3),
    value=ANY_VALUE,
)
@settings(max_examples=300)
def test_an_event_comes_back_equal_or_is_refused(**values: Any) -> None:
    event = Anything(**values)
    try:
        message = CONTRACTS.encode(event)
    except ContractError:
        return
    returned = CONTRACTS.decode(message)
    moments = (event.moment, returned.moment)
    if event.moment is not None:
        assert instant(returned.moment) == instant(event.moment)
        moments = (None, None)
    assert (returned.text, returned.number, returned.share) == (event.text, event.number, event.share)
    assert (returned.price, returned.reference) == (event.price, event.reference)
    assert (returned.by_number, returned.value) == (event.by_number, event.value)
    assert moments[0] == moments[1]
    assert CONTRACTS.encode(event) == message


def instant(moment: datetime) -> timedelta:
    """The time since year 1 in UTC."""
    return moment.replace(tzinfo=UTC) - datetime(1, 1, 1, tzinfo=UTC) - (moment.utcoffset() or timedelta(0))


@given(
    text=SAFE_TEXT,
    number=st.integers(-(2**63), 2**64 - 1),
    share=st.floats(allow_nan=False, allow_infinity=False),
    price=st.decimals(allow_nan=False),
    reference=st.none() | st.uuids(),
    moment=st.none()
    | st.datetimes(timezones=st.timezones())
    | st.datetimes(timezones=st.integers(-1439, 1439).map(lambda each: timezone(timedelta(minutes=each)))),
    by_number=st.none() | st.dictionaries(st.integers(-(2**63), 2**63), SAFE_TEXT, max_size=3),
)
def test_what_json_can_hold_is_never_refused(**values: Any) -> None:
    assert CONTRACTS.decode(CONTRACTS.encode(Anything(**values))) is not None


@given(st.uuids(), INSTANTS, ANY_JSON, ANY_TEXT)
def test_whatever_is_stored_only_our_errors_come_out(
    identity: UUID, instant: UtcInstant, value: Any, text: str
) -> None:
    fields = {
        "id": str(identity),
        "occurred_at": str(instant),
        "value": value,
        "text": value,
        "number": value,
    }
    for payload in (json.dumps(value), json.dumps(fields), text):
        message = Message(
            id=identity, contract_name="anything", contract_version=1, occurred_at=instant, payload=payload
        )
        try:
            CONTRACTS.decode(message)
        except DecodeError as error:
            assert error.__context__ is None  # noqa: PT017 - one of our errors, or none
