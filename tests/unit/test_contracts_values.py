"""Values come back equal, or are refused when the event is enqueued: path, kind and rule."""

import json
import math
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest

from uow.contracts import BodyTooLargeError, Contracts, EncodeError, ValueRefusedError
from uow.event import Event
from uow.text import TextError
from uow.ticks import MAXIMUM_TICKS, UtcInstant

BERLIN = ZoneInfo("Europe/Berlin")


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Status(StrEnum):
    NEW = "new"


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict):
    gift: bool


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    note: Any = None


@dataclass(frozen=True, kw_only=True)
class Everything(Event):
    text: str = ""
    number: int = 0
    share: float = 0.0
    flag: bool = False
    price: Decimal = Decimal(0)
    reference: UUID | None = None
    moment: datetime | None = None
    day: date | None = None
    clock: time | None = None
    span: timedelta | None = None
    colour: Colour | None = None
    size: Size | None = None
    status: Status | None = None
    raw: bytes = b""
    tags: frozenset[str] = frozenset()
    ids: set[UUID] = field(default_factory=set)
    moments: frozenset[datetime] = frozenset()
    by_number: dict[int, str] = field(default_factory=dict)
    by_id: dict[UUID, Decimal] = field(default_factory=dict)
    by_colour: dict[Colour, int] = field(default_factory=dict)
    by_moment: dict[datetime, int] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    pair: tuple[int, str] | None = None
    many: tuple[Decimal, ...] = ()
    point: Point | None = None
    options: Options | None = None
    literal: Literal["a", "b"] = "a"
    instant: UtcInstant | None = None
    anything: Any = None
    hidden: Any = field(default=None, compare=False)
    _private: int = 0


@pytest.fixture
def contracts() -> Contracts:
    contracts = Contracts()
    contracts.register(Everything, name="everything", version=1)
    return contracts


COME_BACK: list[dict[str, Any]] = [
    {"text": 'Zo\xeb \U0001f600 \u2028 " \\ \x01 \x7f'},
    {"number": 2**63},
    {"number": 2**64 - 1},
    {"number": -(2**63)},
    {"share": 0.1},
    {"share": 1e308},
    {"share": 5e-324},
    {"share": 3},
    {"flag": True},
    {"price": Decimal("0.10")},
    {"price": Decimal("-12345678901234567890.123456789012345678901234567890")},
    {"price": Decimal("1E+1000")},
    {"reference": uuid4()},
    {"moment": datetime(2026, 1, 1, tzinfo=UTC)},
    {"moment": datetime(2026, 6, 1, 12, 30, 0, 1, tzinfo=BERLIN)},
    {"moment": datetime(2026, 6, 1, tzinfo=timezone(timedelta(hours=-5, minutes=-45)))},
    {"moment": datetime(1800, 1, 1, tzinfo=BERLIN)},
    {"moment": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
    {"moment": datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))},
    {"day": date(2026, 2, 28)},
    {"clock": time(9, 30)},
    {"clock": time(9, 30, 0, 5, tzinfo=timezone(timedelta(hours=2)))},
    {"span": timedelta(days=-3, microseconds=7)},
    {"colour": Colour.RED, "size": Size.SMALL, "status": Status.NEW},
    {"raw": bytes(range(256))},
    {"tags": frozenset({"b", "a", "\xe9"})},
    {"ids": {uuid4(), uuid4()}},
    {"by_number": {1: "a", -5: "b", 2**64 - 1: "c"}},
    {"by_id": {uuid4(): Decimal("1.0")}},
    {"by_colour": {Colour.RED: 1}},
    {"lines": [Line("a", Decimal(1)), Line("b", Decimal("2.5"), {"deep": [1, None, True]})]},
    {"pair": (1, "a"), "many": (Decimal(1), Decimal("2.0"))},
    {"point": Point(1, 2)},
    {"options": {"gift": True}},
    {"literal": "b"},
    {"instant": UtcInstant(MAXIMUM_TICKS)},
    {"anything": {"a": [1, 2.5, None, True, "x", {"b": {}}], "": []}},
    {"anything": OrderedDict(b=1, a=2)},
    {"_private": 7},
]


@pytest.mark.parametrize("values", COME_BACK, ids="-".join)
def test_a_value_comes_back_equal(contracts: Contracts, values: dict[str, Any]) -> None:
    event = Everything(**values)
    assert contracts.decode(contracts.encode(event)) == event


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("wall", [datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30)])  # noqa: DTZ001
@pytest.mark.parametrize("wrap", ["moment", "moments", "by_moment"])
def test_a_datetime_in_a_fold_or_gap_comes_back_as_the_same_instant(
    contracts: Contracts, wall: datetime, fold: int, wrap: str
) -> None:
    moment = wall.replace(tzinfo=BERLIN, fold=fold)
    values: dict[str, Any] = {"moment": moment, "moments": frozenset({moment}), "by_moment": {moment: 1}}
    returned = contracts.decode(contracts.encode(Everything(**{wrap: values[wrap]})))
    found = next(iter(getattr(returned, wrap))) if wrap != "moment" else returned.moment
    assert found.astimezone(UTC) == moment.astimezone(UTC)


REFUSED: list[tuple[dict[str, Any], str, str, str]] = [
    ({"number": 2**64}, "number", "int", "must be between -2**63 and 2**64-1"),
    ({"number": -(2**63) - 1}, "number", "int", "must be between"),
    ({"by_number": {2**64: "a"}}, "by_number[key 18446744073709551616]", "int", "must be between"),
    ({"share": math.nan}, "share", "float", "must be finite"),
    ({"share": math.inf}, "share", "float", "must be finite"),
    ({"anything": [1, -math.inf]}, "anything[1]", "float", "must be finite"),
    ({"price": Decimal("NaN")}, "price", "Decimal", "must be a number"),
    ({"price": Decimal("sNaN")}, "price", "Decimal", "must be a number"),
    ({"moment": datetime(2026, 1, 1)}, "moment", "datetime", "must have a time zone"),  # noqa: DTZ001
    ({"by_moment": {datetime(2026, 1, 1): 1}}, "by_moment[key ", "datetime", "must have a time zone"),  # noqa: DTZ001
    ({"text": "a\x00"}, "text", "str", "must not contain NUL"),
    ({"text": "\ud800"}, "text", "str", "must not contain a lone surrogate"),
    ({"lines": [Line("a", Decimal(1), {"k": ["x", "\udfff"]})]}, "lines[0].note['k'][1]", "str", "lone surr"),
    ({"anything": {"a\x00": 1}}, r"anything[key 'a\x00']", "str", "must not contain NUL"),
    ({"tags": frozenset({"\x00"})}, "tags[...]", "str", "must not contain NUL"),
    ({"anything": Decimal("1.5")}, "anything", "Decimal", "would come back as str"),
    ({"anything": uuid4()}, "anything", "UUID", "would come back as str"),
    ({"anything": datetime(2026, 1, 1, tzinfo=UTC)}, "anything", "datetime", "would come back as str"),
    ({"anything": Colour.RED}, "anything", "Colour", "would come back as str"),
    ({"anything": (1, 2)}, "anything", "tuple", "would come back as list"),
    ({"anything": {1, 2}}, "anything", "set", "would come back as list"),
    ({"anything": b"x"}, "anything", "bytes", "would come back as str"),
    ({"anything": UtcInstant(5)}, "anything", "UtcInstant", "would come back as str"),
    ({"anything": {"a": {1: "x"}}}, "anything['a'][key 1]", "int", "would come back as str"),
    ({"anything": Line("a", Decimal(1))}, "anything", "Line", "would come back as dict"),
    ({"anything": object()}, "anything", "object", "has no JSON form"),
    ({"anything": [1j]}, "anything[0]", "complex", "has no JSON form"),
    ({"anything": {(1, 2): 3}}, "anything[key (1, 2)]", "tuple", "has no JSON form"),
    ({"anything": {Decimal(1): 3}}, "anything[key Decimal('1')]", "Decimal", "has no JSON form"),
    ({"by_number": {1: "a", "1": "b"}}, "by_number[1]", "str", "would come back with another value"),
    ({"number": "5"}, "number", "str", "expected `int`, got `str`"),
    ({"number": True}, "number", "bool", "expected `int`, got `bool`"),
    ({"share": 2**53 + 1}, "share", "int", "would come back as float"),
    ({"text": 5}, "text", "int", "expected `str`, got `int`"),
    ({"text": None}, "text", "NoneType", "expected `str`, got `null`"),
    (
        {"lines": [Line("a", Decimal(1)), Line(None, Decimal(1))]},
        "lines[1].sku",
        "NoneType",
        "expected `str`",
    ),
    ({"lines": (Line("a", Decimal(1)),)}, "lines", "tuple", "would come back as list"),
    ({"literal": "c"}, "literal", "str", "cannot come back: "),
    ({"hidden": Decimal(1)}, "hidden", "Decimal", "would come back as str"),
    (
        {"options": {"gift": True, "wrap": 1}},
        "options",
        "dict",
        "would come back with 1 members instead of 2",
    ),
]


@pytest.mark.parametrize(
    ("values", "path", "kind", "rule"), REFUSED, ids=[f"{case[1]}-{case[2]}"[:40] for case in REFUSED]
)
def test_a_value_that_would_not_come_back_is_refused(
    contracts: Contracts, values: dict[str, Any], path: str, kind: str, rule: str
) -> None:
    with pytest.raises(ValueRefusedError) as caught:
        contracts.encode(Everything(**values))
    error = caught.value
    assert error.path == path or error.path.startswith(path), error.path
    assert error.kind == kind
    assert rule in error.rule
    assert error.contract == "everything.v1"
    assert str(error).startswith(f"everything.v1: {error.path} ({kind}) ")


@pytest.mark.parametrize(
    ("values", "path", "kind"),
    [
        ({"id": "0198c5f0-0000-7000-8000-000000000000"}, "id", "str"),
        ({"id": None}, "id", "NoneType"),
        ({"occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}, "occurred_at", "datetime"),
        ({"occurred_at": "2026-01-01T00:00:00.0000000Z"}, "occurred_at", "str"),
    ],
)
def test_identity_and_time_of_another_type_are_refused(
    contracts: Contracts, values: dict[str, Any], path: str, kind: str
) -> None:
    with pytest.raises(ValueRefusedError) as caught:
        contracts.encode(Everything(**values))
    assert (caught.value.path, caught.value.kind) == (path, kind)


def test_a_circle_is_refused(contracts: Contracts) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueRefusedError, match="must not be nested more than 100 deep"):
        contracts.encode(Everything(anything=circle))


def test_depth_is_accepted_up_to_its_limit(contracts: Contracts) -> None:
    def nested(depth: int) -> list[Any]:
        return [] if depth == 1 else [nested(depth - 1)]

    event = Everything(anything=nested(100))
    assert contracts.decode(contracts.encode(event)) == event
    with pytest.raises(ValueRefusedError, match="must not be nested"):
        contracts.encode(Everything(anything=nested(101)))


def test_later_mutation_changes_nothing(contracts: Contracts) -> None:
    event = Everything(anything={"state": "before"}, by_number={1: "a"})
    message = contracts.encode(event)
    event.anything["state"] = "after"
    event.by_number[2] = "b"
    assert '"before"' in message.payload
    assert "after" not in message.payload
    assert contracts.decode(message).by_number == {1: "a"}


def test_the_message_carries_identity_time_contract_and_text_made_once(contracts: Contracts) -> None:
    event = Everything(text="Zo\xeb")
    message = contracts.encode(event)
    assert (message.id, message.occurred_at) == (event.id, event.occurred_at)
    assert (message.contract_name, message.contract_version) == ("everything", 1)
    assert message.correlation_id is message.traceparent is message.tracestate is message.ordering_key is None
    written = json.loads(message.payload)
    assert written["id"] == str(event.id)
    assert written["occurred_at"] == str(event.occurred_at)
    assert '"text":"Zo\xeb"' in message.payload
    assert contracts.encode(event) == message


def test_a_changeable_dataclass_may_be_an_event(contracts: Contracts) -> None:
    @dataclass
    class Changeable:
        id: UUID
        occurred_at: UtcInstant
        value: int

    contracts.register(Changeable, name="changeable", version=1)
    event = Changeable(uuid4(), UtcInstant.now(), 1)
    message = contracts.encode(event)
    event.value = 2
    assert contracts.decode(message).value == 1


def test_a_set_is_written_alike_in_every_process() -> None:
    program = (
        "from tests.unit.test_contracts_values import *\n"
        "contracts = Contracts(); contracts.register(Everything, name='everything', version=1)\n"
        "event = Everything(id=UUID(int=7), occurred_at=UtcInstant(1), tags=frozenset('abcdefghij'))\n"
        "print(contracts.encode(event).payload)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


def test_a_field_that_a_class_computes_comes_back_when_it_is_computed_alike(contracts: Contracts) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Computed(Event):
        price: int
        factor: int = field(init=False, default=2)
        total: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.price * self.factor)

    contracts.register(Computed, name="computed", version=1)
    event = Computed(price=4)
    assert contracts.decode(contracts.encode(event)) == event
    object.__setattr__(event, "total", 9)
    with pytest.raises(ValueRefusedError, match=r"total \(int\) would come back with another value"):
        contracts.encode(event)


def test_a_body_at_its_limit_is_accepted_and_one_byte_more_is_refused(contracts: Contracts) -> None:
    empty = len(contracts.encode(Everything()).payload.encode())
    room = 1_048_576 - empty
    event = Everything(text="\u20ac" * (room // 3) + "a" * (room % 3))
    message = contracts.encode(event)
    assert len(message.payload.encode()) == 1_048_576
    assert contracts.decode(message) == event
    with pytest.raises(BodyTooLargeError) as caught:
        contracts.encode(Everything(text=event.text + "a"))
    assert caught.value.rule == "takes 1048577 UTF-8 bytes as JSON; at most 1048576 are allowed"
    assert (caught.value.path, caught.value.kind) == ("", "Everything")
    assert isinstance(caught.value, EncodeError)


def test_the_limit_of_the_body_can_be_set(contracts: Contracts) -> None:
    event = Everything()
    size = len(contracts.encode(event).payload.encode())
    assert contracts.encode(event, maximum_body_bytes=size)
    with pytest.raises(BodyTooLargeError, match=f"at most {size - 1} are allowed"):
        contracts.encode(event, maximum_body_bytes=size - 1)


def test_the_ordering_key_comes_from_the_event() -> None:
    contracts = Contracts()
    contracts.register(
        Everything, name="everything", version=1, ordering_key=lambda event: event.text or None
    )
    assert contracts.encode(Everything(text="customer 7")).ordering_key == "customer 7"
    assert contracts.encode(Everything()).ordering_key is None
    assert contracts.encode(Everything(text="\U0001f600" * 100)).ordering_key == "\U0001f600" * 100
    with pytest.raises(TextError, match="ordering_key must have at most 200 UTF-16 units, not 201"):
        contracts.encode(Everything(text="a" * 201))
    with pytest.raises(TextError, match="ordering_key must not be blank"):
        contracts.encode(Everything(text=" "))
