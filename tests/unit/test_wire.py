"""What a broker carries: written in one way, read strictly."""

import copy
import pickle
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from relay.wire import WireError, decode_wire, encode_wire
from tests.unit.test_contracts_decoding import chain
from uow.contracts import (
    ContractError,
    DecodeError,
    EnvelopeMismatchError,
    MalformedPayloadError,
    PayloadFieldError,
)
from uow.errors import FixTheCodeError
from uow.message import Message
from uow.text import TextError
from uow.ticks import UtcInstant

SECRET = "s3cr3t-4711"
ID = UUID("0198c5f0-0000-7000-8000-00000000000a")
INSTANT = UtcInstant.parse("2026-01-01T00:00:00.0000007Z")
PAYLOAD = f'{{"id":"{ID}","occurred_at":"{INSTANT}","customer":"Zo\xeb {SECRET}"}}'
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def message() -> Message:
    return Message(
        id=ID,
        contract_name="orders.placed",
        contract_version=3,
        occurred_at=INSTANT,
        payload=PAYLOAD,
        correlation_id="request-1",
        traceparent=TRACEPARENT,
        tracestate="vendor=1",
        ordering_key="customer-7",
    )


def test_a_message_on_the_wire(message: Message) -> None:
    wire = encode_wire(message)
    assert wire.body == PAYLOAD.encode()
    assert wire.routing_key == "orders.placed.v3"
    assert wire.properties == {
        "message_id": "0198c5f000007000800000000000000a",
        "type": "orders.placed.v3",
        "correlation_id": "request-1",
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
    }
    assert wire.headers == {
        "ms-contract-name": "orders.placed",
        "ms-contract-version": 3,
        "ms-occurred-at": "2026-01-01T00:00:00.0000007Z",
        "traceparent": TRACEPARENT,
        "tracestate": "vendor=1",
    }


def test_trace_fields_are_on_the_wire_only_when_present(message: Message) -> None:
    wire = encode_wire(replace(message, correlation_id=None, traceparent=None, tracestate=None))
    assert "correlation_id" not in wire.properties
    assert not {"traceparent", "tracestate"} & wire.headers.keys()


def test_the_payload_is_not_shown_by_its_repr(message: Message) -> None:
    assert SECRET not in repr(encode_wire(message))


def decoded(message: Message, /, **changes: Any) -> Message:
    """Decode what `message` is on the wire after changes; a value of ... takes a header or property away."""
    wire = encode_wire(message)
    properties = {**wire.properties, **changes.pop("properties", {})}
    headers = {**wire.headers, **changes.pop("headers", {})}
    return decode_wire(
        changes.pop("body", wire.body),
        changes.pop("content_type", "application/json"),
        {name: value for name, value in headers.items() if value is not ...},
        {name: value for name, value in properties.items() if value is not ...},
        **changes,
    )


def test_a_message_comes_back_without_its_ordering_key(message: Message) -> None:
    assert decoded(message) == replace(message, ordering_key=None)
    bare = replace(message, correlation_id=None, traceparent=None, tracestate=None, ordering_key=None)
    assert decoded(bare) == bare


def test_what_others_add_is_left_alone(message: Message) -> None:
    changed = decoded(
        message,
        headers={"x-death": [{"count": 1}], "x-delivery-count": 2},
        properties={"delivery_info": {}, "priority": 0, "timestamp": 5, "app_id": "other"},
    )
    assert changed == replace(message, ordering_key=None)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/json ; charset=utf-8 ",
    ],
)
def test_json_may_say_that_it_is_utf8(message: Message, content_type: str) -> None:
    assert decoded(message, content_type=content_type).id == ID


OFF: list[tuple[dict[str, Any], str, str]] = [
    ({"content_type": None}, "content type", "must be application/json"),
    ({"content_type": ""}, "content type", "must be application/json"),
    ({"content_type": "text/plain"}, "content type", "must be application/json"),
    ({"content_type": "application/json5"}, "content type", "must be application/json"),
    ({"content_type": "application/json; charset=latin-1"}, "content type", "must be application/json"),
    ({"content_type": 'application/json; charset="utf-8'}, "content type", "must be application/json"),
    ({"content_type": "application/json; version=1"}, "content type", "must be application/json"),
    ({"content_type": b"application/json"}, "content type", "must be application/json"),
    ({"properties": {"content_encoding": "gzip"}}, "content encoding", "must be utf-8 or absent"),
    ({"properties": {"content_encoding": b"utf-8"}}, "content encoding", "must be utf-8 or absent"),
    ({"properties": {"message_id": ...}}, "property message_id", "is missing"),
    ({"properties": {"message_id": None}}, "property message_id", "is missing"),
    ({"properties": {"message_id": ""}}, "property message_id", "must be 32 lower-case hexadecimal digits"),
    ({"properties": {"message_id": str(ID)}}, "property message_id", "must be 32 lower-case hex"),
    ({"properties": {"message_id": ID.hex.upper()}}, "property message_id", "must be 32 lower-case hex"),
    ({"properties": {"message_id": ID.hex + "0"}}, "property message_id", "must be 32 lower-case hex"),
    ({"properties": {"message_id": ID.hex + "\n"}}, "property message_id", "must be 32 lower-case hex"),
    ({"properties": {"message_id": ID.bytes}}, "property message_id", "must be 32 lower-case hex"),
    ({"properties": {"message_id": ID}}, "property message_id", "must be 32 lower-case hex"),
    ({"properties": {"type": ...}}, "property type", "is missing"),
    ({"properties": {"type": "orders.placed"}}, "property type", "must be"),
    ({"properties": {"type": "orders.placed.v2"}}, "property type", "must be"),
    ({"properties": {"type": "Orders.placed.v3"}}, "property type", "must be"),
    ({"properties": {"type": b"orders.placed.v3"}}, "property type", "must be text, not bytes"),
    ({"headers": {"ms-contract-name": ...}}, "header ms-contract-name", "is missing"),
    ({"headers": {"ms-contract-name": "orders.paid"}}, "property type", "must be"),
    ({"headers": {"ms-contract-name": " "}}, "header ms-contract-name", "must not be blank"),
    ({"headers": {"ms-contract-name": "a*"}}, "header ms-contract-name", "must not contain '*'"),
    ({"headers": {"ms-contract-name": "a" * 201}}, "header ms-contract-name", "must have at most 200"),
    ({"headers": {"ms-contract-name": "a\ud800"}}, "header ms-contract-name", "must not contain a lone"),
    ({"headers": {"ms-contract-name": b"orders.placed"}}, "header ms-contract-name", "must be text"),
    ({"headers": {"ms-contract-version": ...}}, "header ms-contract-version", "is missing"),
    ({"headers": {"ms-contract-version": "3"}}, "header ms-contract-version", "must be a whole number"),
    ({"headers": {"ms-contract-version": 3.0}}, "header ms-contract-version", "must be a whole number"),
    ({"headers": {"ms-contract-version": True}}, "header ms-contract-version", "must be a whole number"),
    ({"headers": {"ms-contract-version": 0}}, "header ms-contract-version", "must be a whole number"),
    ({"headers": {"ms-contract-version": 2**31}}, "header ms-contract-version", "must be a whole number"),
    ({"headers": {"ms-contract-version": 2}}, "property type", "must be"),
    ({"headers": {"ms-occurred-at": ...}}, "header ms-occurred-at", "is missing"),
    ({"headers": {"ms-occurred-at": INSTANT.ticks}}, "header ms-occurred-at", "must be UTC text"),
    ({"headers": {"ms-occurred-at": "2026-01-01T00:00:00Z"}}, "header ms-occurred-at", "must be UTC text"),
    ({"headers": {"ms-occurred-at": "2026-01-01T00:00:00.000000Z"}}, "header ms-occurred-at", "must be UTC"),
    (
        {"headers": {"ms-occurred-at": "2026-01-01T00:00:00.00000070Z"}},
        "header ms-occurred-at",
        "must be UTC",
    ),
    (
        {"headers": {"ms-occurred-at": "2026-01-01T00:00:00.0000007+00:00"}},
        "header ms-occurred-at",
        "must be",
    ),
    ({"headers": {"ms-occurred-at": "2026-02-30T00:00:00.0000007Z"}}, "header ms-occurred-at", "must be UTC"),
    (
        {"headers": {"ms-occurred-at": b"2026-01-01T00:00:00.0000007Z"}},
        "header ms-occurred-at",
        "must be UTC",
    ),
    ({"headers": {"traceparent": ""}}, "header traceparent", "must not be blank"),
    ({"headers": {"traceparent": 5}}, "header traceparent", "must be text, not int"),
    ({"headers": {"traceparent": "a" * 129}}, "header traceparent", "must have at most 128 UTF-16 units"),
    ({"headers": {"tracestate": "a" * 513}}, "header tracestate", "must have at most 512 UTF-16 units"),
    ({"headers": {"tracestate": "a\x00"}}, "header tracestate", "must not contain NUL"),
    ({"properties": {"correlation_id": "a" * 201}}, "property correlation_id", "must have at most 200"),
    ({"properties": {"correlation_id": "\u20ac" * 86}}, "property correlation_id", "must have at most 255"),
    ({"properties": {"correlation_id": "a\x00"}}, "property correlation_id", "must not contain NUL"),
    ({"properties": {"correlation_id": 7}}, "property correlation_id", "must be text, not int"),
    ({"body": PAYLOAD}, "body", "must be bytes, not str"),
    ({"body": None}, "body", "must be bytes, not NoneType"),
    ({"body": b"\xef\xbb\xbf" + PAYLOAD.encode()}, "body", "must not begin with a byte order mark"),
    ({"body": PAYLOAD.encode("utf-16")}, "body", "must not contain NUL"),
    ({"body": PAYLOAD.encode("latin-1")}, "body", "must be UTF-8"),
    ({"body": PAYLOAD.replace("\xeb", "\ud800").encode("utf-8", "surrogatepass")}, "body", "must be UTF-8"),
    ({"body": PAYLOAD.encode() + b"\x00"}, "body", "must not contain NUL"),
    ({"maximum_body_bytes": len(PAYLOAD.encode()) - 1}, "body", "are allowed"),
]


@pytest.mark.parametrize(
    ("changes", "part", "rule"), OFF, ids=[f"{number}-{case[1]}" for number, case in enumerate(OFF)]
)
def test_anything_off_is_refused(message: Message, changes: dict[str, Any], part: str, rule: str) -> None:
    with pytest.raises(WireError) as caught:
        decoded(message, **dict(changes))
    assert caught.value.part == part
    assert rule in caught.value.rule
    assert list(chain(caught.value)) == [caught.value]
    assert SECRET not in f"{caught.value}{caught.value.args}"
    assert isinstance(caught.value, ContractError)
    for twin in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert str(twin) == str(caught.value)


@pytest.mark.parametrize(
    ("headers", "properties", "part"),
    [
        (None, None, "header ms-contract-name"),
        ({}, {}, "header ms-contract-name"),
        ([], {}, "headers"),
        ({}, "text", "properties"),
    ],
)
def test_a_delivery_without_headers_is_refused(headers: Any, properties: Any, part: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_wire(PAYLOAD.encode(), "application/json", headers, properties)
    assert caught.value.part == part


@pytest.mark.parametrize(
    ("body", "error_type"),
    [
        ("", MalformedPayloadError),
        ("null", MalformedPayloadError),
        ("[]", MalformedPayloadError),
        (f'{{"id":"{SECRET}', MalformedPayloadError),
        (f'{{"id":"{SECRET}"}}', PayloadFieldError),
        (f'{{"id":"{ID}"}}', PayloadFieldError),
        (f'{{"id":"{ID}","occurred_at":"{SECRET}"}}', PayloadFieldError),
        (f'{{"id":"{ID}","occurred_at":"2026-01-01T00:00:00.0000008Z"}}', EnvelopeMismatchError),
        (f'{{"id":"{UUID(int=1)}","occurred_at":"{INSTANT}"}}', EnvelopeMismatchError),
    ],
)
def test_a_body_that_contradicts_its_envelope_is_refused(
    message: Message, body: str, error_type: type[DecodeError]
) -> None:
    with pytest.raises(error_type) as caught:
        decoded(message, body=body.encode())
    assert list(chain(caught.value)) == [caught.value]
    assert SECRET not in f"{caught.value}{caught.value.args}"


def test_limits_hold_at_their_exact_boundary(message: Message) -> None:
    largest = replace(
        message,
        correlation_id="a" * 200,
        traceparent="a" * 128,
        tracestate="\U0001f600" * 256,
        ordering_key=None,
    )
    assert decoded(largest, maximum_body_bytes=len(PAYLOAD.encode())) == largest
    named = replace(message, contract_name="\u20ac" * 83 + "ab", ordering_key=None)
    assert len(encode_wire(named).routing_key.encode()) == 254
    assert decoded(named) == named


def test_the_default_limit_of_the_body_is_one_mebibyte(message: Message) -> None:
    head = PAYLOAD[:-2]
    filled = head + "a" * (1_048_576 - len(head.encode()) - 2) + '"}'
    assert len(filled.encode()) == 1_048_576
    assert decoded(message, body=filled.encode()).payload == filled
    with pytest.raises(WireError, match="has 1048577 bytes; at most 1048576 are allowed"):
        decoded(message, body=filled.replace('"}', 'a"}').encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"contract_name": "a" * 201},
        {"contract_name": "\u20ac" * 84},
        {"contract_name": "a#"},
        {"correlation_id": "\u20ac" * 86},
        {"correlation_id": "\x00"},
        {"traceparent": "a" * 129},
        {"tracestate": "a" * 513},
        {"payload": '{"a":"\ud800"}'},
        {"payload": '{"a":"\x00"}'},
    ],
)
def test_what_no_reader_would_accept_is_not_sent(message: Message, changes: dict[str, Any]) -> None:
    with pytest.raises(TextError) as caught:
        encode_wire(replace(message, **changes))
    assert isinstance(caught.value, FixTheCodeError)
