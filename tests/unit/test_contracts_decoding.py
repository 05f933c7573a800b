"""Reading is strict, and no error repeats anything of the payload, however far one follows its chain."""

import copy
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import pytest

from uow.contracts import (
    Contracts,
    DecodeError,
    EnvelopeMismatchError,
    MalformedPayloadError,
    PayloadFieldError,
    UnknownContractError,
    UnknownVersionError,
    UpcastError,
)
from uow.errors import LookAtItError
from uow.event import Event
from uow.message import Message
from uow.ticks import UtcInstant

SECRET = "s3cr3t-4711"


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal = Decimal(1)


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    order_id: int
    customer: str = "x"
    colour: Colour = Colour.RED
    reference: UUID | None = None
    moment: datetime | None = None
    share: float = 0.0
    raw: bytes = b""
    lines: list[Line] = field(default_factory=list)
    by_name: dict[str, int] = field(default_factory=dict)
    by_number: dict[int, str] = field(default_factory=dict)
    anything: Any = None

    def __post_init__(self) -> None:
        if self.customer.startswith("raise"):
            raise RAISED[self.customer]


RAISED = {
    "raise value": ValueError(f"bad {SECRET} - at `$.{SECRET}`"),
    "raise type": TypeError(f"Object missing required field `{SECRET}`"),
    "raise key": KeyError(SECRET),
    "raise zero": ZeroDivisionError(SECRET),
    "raise recursion": RecursionError(SECRET),
    "raise expected": ValueError(f"Expected `str`, got `{SECRET}`"),
}


@pytest.fixture
def contracts() -> Contracts:
    contracts = Contracts()
    contracts.register(OrderPlaced, name="orders.placed", version=1)
    return contracts


@pytest.fixture
def message(contracts: Contracts) -> Message:
    return contracts.encode(OrderPlaced(order_id=1, customer="Zo\xeb"))


def with_fields(message: Message, text: str) -> Message:
    """`message` with `text` instead of the fields after the identity."""
    head = f'{{"id":"{message.id}","occurred_at":"{message.occurred_at}"'
    return replace(message, payload=f"{head}{',' if text else ''}{text}}}")


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and everything that it leads to."""
    waiting, seen = [error], set()
    while waiting:
        current = waiting.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting += [current.__cause__, current.__context__]


def refusal(contracts: Contracts, message: Message) -> DecodeError:
    """The error of decoding, after looking through its whole chain for the secret."""
    with pytest.raises(DecodeError) as caught:
        contracts.decode(message)
    for each in chain(caught.value):
        assert SECRET not in f"{each}{each!r}{each.args}{vars(each)}{getattr(each, '__notes__', '')}"
    assert list(chain(caught.value)) == [caught.value]
    assert isinstance(caught.value, LookAtItError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert str(copy.copy(caught.value)) == str(caught.value)
    return caught.value


MALFORMED = {
    "empty": "",
    "null": "null",
    "list": f'["{SECRET}"]',
    "text": f'"{SECRET}"',
    "number": "1",
    "cut": f'{{"{SECRET}":"{SECRET}',
    "comment": f"{{/*{SECRET}*/}}",
    "byte order mark": f'\ufeff{{"{SECRET}":1}}',
    "surrogate": f'{{"{SECRET}":"\ud800"}}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_json_object_is_malformed(contracts: Contracts, message: Message, payload: str) -> None:
    assert isinstance(refusal(contracts, replace(message, payload=payload)), MalformedPayloadError)


@pytest.mark.parametrize(
    "text", [f'"anything":NaN,"customer":"{SECRET}"', '"share":Infinity', '"order_id":01']
)
def test_json_with_more_than_json_allows_is_malformed(
    contracts: Contracts, message: Message, text: str
) -> None:
    assert isinstance(refusal(contracts, with_fields(message, text)), MalformedPayloadError)


def test_text_after_the_object_is_malformed(contracts: Contracts, message: Message) -> None:
    error = refusal(contracts, replace(message, payload=message.payload + SECRET))
    assert isinstance(error, MalformedPayloadError)


def test_a_lone_surrogate_in_an_escape_is_malformed(contracts: Contracts, message: Message) -> None:
    for text in ('"order_id":1,"customer":"\\ud800"', '"order_id":1,"unknown":"\\udfff"'):
        assert isinstance(refusal(contracts, with_fields(message, text)), MalformedPayloadError)


WRONG = {
    "missing": ("", "order_id", "is missing"),
    "null": ('"order_id":null', "order_id", "is wrong: expected `int`, got `null`"),
    "type": (f'"order_id":"{SECRET}"', "order_id", "is wrong: expected `int`, got `str`"),
    "number as text": ('"order_id":"1"', "order_id", "is wrong: expected `int`, got `str`"),
    "bool as number": ('"order_id":true', "order_id", "is wrong: expected `int`, got `bool`"),
    "fraction": ('"order_id":1.5', "order_id", "is wrong: expected `int`, got `float`"),
    "enum": (f'"order_id":1,"colour":"{SECRET}"', "colour", "is not a value of its enumeration"),
    "uuid": (f'"order_id":1,"reference":"{SECRET}"', "reference", "must be a UUID"),
    "moment": (f'"order_id":1,"moment":"{SECRET}"', "moment", "must be a date and time as in RFC 3339"),
    "bytes": (f'"order_id":1,"raw":"{SECRET}"', "raw", "must be base64 text"),
    "decimal": (
        f'"order_id":1,"lines":[{{"sku":"a","price":"{SECRET}"}}]',
        "lines[0].price",
        "must be a dec",
    ),
    "range": ('"order_id":1,"share":1e999', "share", "is a number out of range"),
    "nested": (f'"order_id":1,"lines":[{{"sku":"a"}},{{"x":"{SECRET}"}}]', "lines[1].sku", "is missing"),
    "value below key": (f'"order_id":1,"by_name":{{"{SECRET}":"{SECRET}"}}', "by_name[...]", "is wrong"),
    "key": (
        f'"order_id":1,"by_number":{{"{SECRET}":"a"}}',
        "by_number[key]",
        "is wrong: expected",
    ),
    "nul": ('"order_id":1,"customer":"\\u0000"', "customer", "must not contain NUL (U+0000)"),
    "deep nul": (
        f'"order_id":1,"anything":{{"{SECRET}":[1,"\\u0000"]}}',
        "anything[...][1]",
        "must not contain NUL (U+0000)",
    ),
    "nul in a key": (
        f'"order_id":1,"by_name":{{"{SECRET}\\u0000":1}}',
        "by_name[...]",
        "must not contain NUL",
    ),
}


@pytest.mark.parametrize(("text", "path", "rule"), WRONG.values(), ids=WRONG.keys())
def test_a_missing_or_wrong_field_is_named_by_path_and_rule(
    contracts: Contracts, message: Message, text: str, path: str, rule: str
) -> None:
    error = refusal(contracts, with_fields(message, text))
    assert isinstance(error, PayloadFieldError)
    assert error.path == path
    assert error.rule.startswith(rule)
    assert str(error).startswith(f"orders.placed.v1: {path} {rule}")


@pytest.mark.parametrize("customer", RAISED)
def test_what_an_event_class_raises_is_not_repeated(
    contracts: Contracts, message: Message, customer: str
) -> None:
    refusal(contracts, with_fields(message, f'"order_id":1,"customer":"{customer}"'))


def test_a_doubled_backslash_before_u0000_is_no_nul(contracts: Contracts, message: Message) -> None:
    decoded = contracts.decode(with_fields(message, '"order_id":1,"customer":"\\\\u0000"'))
    assert decoded.customer == "\\u0000"


def test_fields_that_are_not_declared_are_ignored(contracts: Contracts, message: Message) -> None:
    assert contracts.decode(with_fields(message, '"order_id":1,"later":{"a":[1]}')).order_id == 1


def test_a_field_with_a_default_may_be_missing(contracts: Contracts, message: Message) -> None:
    decoded = contracts.decode(with_fields(message, '"order_id":5'))
    assert (decoded.order_id, decoded.customer) == (5, "x")


@pytest.mark.parametrize("name", ["id", "occurred_at"])
def test_identity_and_time_may_not_be_missing_though_they_have_defaults(
    contracts: Contracts, message: Message, name: str
) -> None:
    payload = message.payload.replace(f'"{name}"', '"other"')
    error = refusal(contracts, replace(message, payload=payload))
    assert isinstance(error, PayloadFieldError)
    assert (error.path, error.rule) == (name, "is missing")


def test_another_id_in_the_envelope_is_refused(contracts: Contracts, message: Message) -> None:
    error = refusal(contracts, replace(message, id=uuid4()))
    assert isinstance(error, EnvelopeMismatchError)
    assert error.field == "id"
    assert str(error) == "orders.placed.v1: id differs between the envelope and the payload"


@pytest.mark.parametrize("ticks", [1, -1])
def test_a_time_that_differs_by_one_tick_is_refused(
    contracts: Contracts, message: Message, ticks: int
) -> None:
    error = refusal(contracts, replace(message, occurred_at=UtcInstant(message.occurred_at.ticks + ticks)))
    assert isinstance(error, EnvelopeMismatchError)
    assert error.field == "occurred_at"


@pytest.mark.parametrize("time", [SECRET, "2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00.12345678Z", ""])
def test_a_time_that_is_not_exact_utc_is_refused(contracts: Contracts, message: Message, time: str) -> None:
    payload = message.payload.replace(str(message.occurred_at), time)
    error = refusal(contracts, replace(message, payload=payload))
    assert isinstance(error, PayloadFieldError)
    assert error.path == "occurred_at"


def test_an_unknown_name_is_refused(contracts: Contracts, message: Message) -> None:
    for name in ("orders.lost", "Orders.placed"):
        error = refusal(contracts, replace(message, contract_name=name))
        assert isinstance(error, UnknownContractError)
        assert str(error) == f"contract '{name}' is not registered in this application"
    assert contracts.readable_versions("orders.lost") == frozenset()


def test_an_unknown_version_is_refused(contracts: Contracts, message: Message) -> None:
    error = refusal(contracts, replace(message, contract_version=2))
    assert isinstance(error, UnknownVersionError)
    assert "no class for version 2 and no upcaster to one" in str(error)


@pytest.mark.parametrize(
    "upcaster",
    [
        lambda payload: payload[SECRET],
        lambda payload: 1 / len(payload["order_id"]),
        lambda payload: [SECRET],
        lambda payload: {**payload, "anything": {object(): SECRET}},
        lambda payload: {**payload, "anything": 2**64},
    ],
)
def test_what_an_upcaster_raises_is_not_repeated(upcaster: Any) -> None:
    contracts = Contracts()
    contracts.register(OrderPlaced, name="orders.placed", version=2)
    contracts.upcast(name="orders.placed", from_version=1, to_version=2, upcaster=upcaster)
    event = OrderPlaced(order_id=1, customer=SECRET)
    message = replace(contracts.encode(event), contract_version=1)
    assert isinstance(refusal(contracts, message), UpcastError)
