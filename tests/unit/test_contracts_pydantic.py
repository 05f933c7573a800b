"""Pydantic models are events too, frozen or not, by pydantic's own methods and under the same rules."""

import math
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest

from tests.unit.test_contracts_decoding import SECRET, chain
from uow.contracts import (
    ContractDefinitionError,
    Contracts,
    DecodeError,
    EnvelopeMismatchError,
    MalformedPayloadError,
    PayloadFieldError,
    ValueRefusedError,
)
from uow.event import IntegrationEvent
from uow.ticks import UtcInstant

pydantic = pytest.importorskip("pydantic")
BaseModel, ConfigDict, Field = pydantic.BaseModel, pydantic.ConfigDict, pydantic.Field


class Colour(Enum):
    RED = "red"


class Line(BaseModel):  # type: ignore[misc,valid-type]
    sku: str
    price: Decimal = Decimal(1)


class OrderPlaced(BaseModel):  # type: ignore[misc,valid-type]
    model_config = ConfigDict(frozen=True)

    id: UUID = Field(default_factory=uuid4)
    occurred_at: UtcInstant = Field(default_factory=UtcInstant.now)
    order_id: Annotated[int, Field(ge=0)] = 0
    customer: str = ""
    colour: Colour = Colour.RED
    moment: datetime | None = None
    share: float = 0.0
    tags: frozenset[str] = frozenset()
    by_name: dict[str, int] = Field(default_factory=dict)
    lines: list[Line] = Field(default_factory=list)
    anything: Any = None

    @pydantic.field_validator("customer")
    @classmethod
    def check_customer(cls, value: str) -> str:
        if value == "bad":
            raise ValueError(f"bad customer {SECRET}")
        if value == "broken":
            raise ZeroDivisionError(SECRET)
        return value


class Changeable(BaseModel):  # type: ignore[misc,valid-type]
    id: UUID = Field(default_factory=uuid4)
    occurred_at: UtcInstant = Field(default_factory=UtcInstant.now)
    items: list[str] = Field(default_factory=list)
    hidden: int = Field(default=0, exclude=True)
    _private: int = pydantic.PrivateAttr(default=0)


@pytest.fixture
def contracts() -> Contracts:
    contracts = Contracts()
    contracts.register(OrderPlaced, name="orders.placed", version=1)
    contracts.register(Changeable, name="changeable", version=1)
    return contracts


@pytest.mark.parametrize(
    "values",
    [
        {"order_id": 2**64 - 1},
        {"customer": "Zo\xeb \U0001f600"},
        {"moment": datetime(2026, 6, 1, tzinfo=UTC)},
        {"tags": frozenset({"a", "b"})},
        {"by_name": {"a": 1}},
        {"lines": [Line(sku="a", price=Decimal("1.10"))]},
        {"anything": {"a": [1, None]}},
    ],
    ids="-".join,
)
def test_a_frozen_model_comes_back_equal(contracts: Contracts, values: dict[str, Any]) -> None:
    event = OrderPlaced(**values)
    message = contracts.encode(event)
    assert isinstance(event, IntegrationEvent)
    assert (message.id, message.occurred_at) == (event.id, event.occurred_at)
    assert contracts.decode(message) == event


@pytest.mark.parametrize("fold", [0, 1])
def test_a_datetime_in_a_fold_comes_back_as_the_same_instant(contracts: Contracts, fold: int) -> None:
    moment = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    returned = contracts.decode(contracts.encode(OrderPlaced(moment=moment)))
    assert returned.moment.astimezone(UTC) == moment.astimezone(UTC)


def test_mutating_a_model_later_changes_nothing(contracts: Contracts) -> None:
    event = Changeable(items=["before"])
    message = contracts.encode(event)
    event.items.append("after")
    event.id = uuid4()
    assert contracts.decode(message).items == ["before"]
    assert contracts.decode(message).id == message.id != event.id


@pytest.mark.parametrize(
    ("values", "path", "kind", "rule"),
    [
        ({"order_id": 2**64}, "order_id", "int", "must be between"),
        ({"share": math.nan}, "share", "float", "must be finite"),
        ({"share": math.inf}, "share", "float", "must be finite"),
        ({"moment": datetime(2026, 1, 1)}, "moment", "datetime", "must have a time zone"),  # noqa: DTZ001
        ({"customer": "a\x00"}, "customer", "str", "must not contain NUL"),
        ({"customer": "\ud800"}, "customer", "str", "must not contain a lone surrogate"),
        ({"lines": [{"sku": "a\x00"}]}, "lines[0].sku", "str", "must not contain NUL"),
        ({"by_name": {"\x00": 1}}, r"by_name[key '\x00']", "str", "must not contain NUL"),
        ({"anything": Decimal(1)}, "anything", "Decimal", "would come back as str"),
        ({"anything": uuid4()}, "anything", "UUID", "would come back as str"),
        ({"anything": (1,)}, "anything", "tuple", "would come back as list"),
        ({"anything": Line(sku="a")}, "anything", "Line", "would come back as dict"),
    ],
)
def test_a_value_that_would_not_come_back_is_refused(
    contracts: Contracts, values: dict[str, Any], path: str, kind: str, rule: str
) -> None:
    with pytest.raises(ValueRefusedError) as caught:
        contracts.encode(OrderPlaced.model_construct(**OrderPlaced(order_id=1).__dict__ | values_of(values)))
    assert (caught.value.path, caught.value.kind) == (path, kind)
    assert rule in caught.value.rule


def values_of(values: dict[str, Any]) -> dict[str, Any]:
    """The values as a model holds them."""
    return {
        name: [Line.model_construct(**each) for each in value] if name == "lines" else value
        for name, value in values.items()
    }


def test_a_value_of_another_type_put_in_later_is_refused(contracts: Contracts) -> None:
    event = Changeable(items=["a"])
    event.items.append(5)
    with pytest.raises(ValueRefusedError) as caught:
        contracts.encode(event)
    assert (caught.value.path, caught.value.kind) == ("items[1]", "int")


def test_what_pydantic_leaves_out_is_refused_unless_it_is_the_default(contracts: Contracts) -> None:
    assert contracts.decode(contracts.encode(Changeable())) is not None
    with pytest.raises(ValueRefusedError, match=r"hidden \(int\) would come back with another value"):
        contracts.encode(Changeable(hidden=1))
    event = Changeable()
    event._private = 5
    with pytest.raises(ValueRefusedError, match=r"_private \(int\) would come back with another value"):
        contracts.encode(event)


def test_a_secret_that_pydantic_masks_is_refused() -> None:
    class Masked(BaseModel):  # type: ignore[misc,valid-type]
        id: UUID = Field(default_factory=uuid4)
        occurred_at: UtcInstant = Field(default_factory=UtcInstant.now)
        password: pydantic.SecretStr

    contracts = Contracts()
    contracts.register(Masked, name="masked", version=1)
    with pytest.raises(ValueRefusedError, match="password"):
        contracts.encode(Masked(password="x"))


@pytest.mark.parametrize(
    ("text", "error_type", "path"),
    [
        (f'"order_id":"{SECRET}"', PayloadFieldError, "order_id"),
        ('"order_id":"5"', PayloadFieldError, "order_id"),
        ('"order_id":-1', PayloadFieldError, "order_id"),
        (f'"colour":"{SECRET}"', PayloadFieldError, "colour"),
        (f'"by_name":{{"{SECRET}":"{SECRET}"}}', PayloadFieldError, "by_name[...]"),
        (f'"lines":[{{"price":"{SECRET}"}}]', PayloadFieldError, "lines[0].sku"),
        (f'"lines":[{{"sku":"a","price":"{SECRET}"}}]', PayloadFieldError, "lines[0].price"),
        ('"customer":"bad"', PayloadFieldError, "customer"),
        ('"customer":"broken"', PayloadFieldError, ""),
        (f'"customer":"{SECRET}\\u0000"', PayloadFieldError, "customer"),
        (f'"anything":{{"{SECRET}":"\\u0000"}}', PayloadFieldError, "anything[...]"),
        (f'"customer":"{SECRET}\\ud800"', MalformedPayloadError, None),
        (f'"share":NaN,"customer":"{SECRET}"', MalformedPayloadError, None),
    ],
)
def test_an_error_of_reading_repeats_nothing(
    contracts: Contracts, text: str, error_type: type[DecodeError], path: str | None
) -> None:
    message = contracts.encode(OrderPlaced())
    head = f'{{"id":"{message.id}","occurred_at":"{message.occurred_at}",'
    with pytest.raises(error_type) as caught:
        contracts.decode(replace(message, payload=f"{head}{text}}}"))
    assert list(chain(caught.value)) == [caught.value]
    assert SECRET not in f"{caught.value}{caught.value.args}{vars(caught.value)}"
    if path is not None:
        assert caught.value.path == path  # type: ignore[attr-defined]


@pytest.mark.parametrize("payload", ["null", "[]", "", "{", f'"{SECRET}"'])
def test_what_is_no_object_is_malformed(contracts: Contracts, payload: str) -> None:
    message = contracts.encode(OrderPlaced())
    with pytest.raises(MalformedPayloadError):
        contracts.decode(replace(message, payload=payload))


def test_envelope_and_payload_must_agree(contracts: Contracts) -> None:
    message = contracts.encode(OrderPlaced())
    with pytest.raises(EnvelopeMismatchError):
        contracts.decode(replace(message, id=uuid4()))
    with pytest.raises(EnvelopeMismatchError):
        contracts.decode(replace(message, occurred_at=UtcInstant(message.occurred_at.ticks + 1)))
    payload = message.payload.replace('"occurred_at"', '"other"')
    with pytest.raises(PayloadFieldError, match="occurred_at is missing"):
        contracts.decode(replace(message, payload=payload))


def test_identity_and_time_have_their_types_and_names() -> None:
    class Naive(BaseModel):  # type: ignore[misc,valid-type]
        id: UUID
        occurred_at: datetime

    class Aliased(BaseModel):  # type: ignore[misc,valid-type]
        id: UUID = Field(alias="eventId")
        occurred_at: UtcInstant

    class Timeless(BaseModel):  # type: ignore[misc,valid-type]
        id: UUID

    for model, rule in (
        (Naive, r"Naive\.occurred_at must be declared as UtcInstant"),
        (Aliased, r"Aliased\.id must not have an alias"),
        (Timeless, "Timeless has no field 'occurred_at'"),
    ):
        with pytest.raises(ContractDefinitionError, match=rule):
            Contracts().register(model, name="orders", version=1)


def test_other_fields_may_have_aliases() -> None:
    class Aliased(BaseModel):  # type: ignore[misc,valid-type]
        id: UUID = Field(default_factory=uuid4)
        occurred_at: UtcInstant = Field(default_factory=UtcInstant.now)
        total: int = Field(alias="orderTotal")

    contracts = Contracts()
    contracts.register(Aliased, name="aliased", version=1)
    message = contracts.encode(Aliased(orderTotal=5))
    assert '"orderTotal":5' in message.payload
    assert contracts.decode(message).total == 5


class Warehouse(BaseModel):  # type: ignore[misc,valid-type]
    model_config = ConfigDict(frozen=True)

    codes: set[str] = Field(default_factory=set, alias="theCodes")


class Delivery(BaseModel):  # type: ignore[misc,valid-type]
    id: UUID
    occurred_at: UtcInstant
    labels: pydantic.conset(str)  # type: ignore[valid-type]
    by_name: dict[str, list[Warehouse]] = Field(default_factory=dict)
    pairs: frozenset[tuple[str, frozenset[str]]] | None = None


def test_sets_are_written_alike_whatever_the_order_in_which_python_holds_them(contracts: Contracts) -> None:
    """Small integers that are equal modulo 8 stand in a set in the order in which they came."""

    class Numbers(BaseModel):  # type: ignore[misc,valid-type]
        id: UUID = UUID(int=7)
        occurred_at: UtcInstant = UtcInstant(1)
        numbers: set[int]

    contracts.register(Numbers, name="numbers", version=1)
    texts = set()
    for numbers in ([0, 8, 16], [16, 8, 0]):
        members: set[int] = set()
        for number in numbers:
            members.add(number)
        texts.add(contracts.encode(Numbers(numbers=members)).payload)
    assert len(texts) == 1


def test_a_set_at_any_depth_is_written_alike_in_every_process() -> None:
    program = (
        "from tests.unit.test_contracts_pydantic import *\n"
        "contracts = Contracts(); contracts.register(Delivery, name='delivery', version=1)\n"
        "letters = 'abcdefghij'\n"
        "event = Delivery(id=UUID(int=7), occurred_at=UtcInstant(1), labels=set(letters),\n"
        "    by_name={'north': [Warehouse(theCodes=set(letters))]},\n"
        "    pairs=frozenset({(letter, frozenset(letters)) for letter in letters}))\n"
        "message = contracts.encode(event)\n"
        "assert contracts.decode(message) == event\n"
        "print(message.payload)"
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


def test_a_dataclass_made_by_pydantic_is_an_event_too() -> None:
    @pydantic.dataclasses.dataclass(frozen=True)
    class Placed:
        id: UUID
        occurred_at: UtcInstant
        total: Annotated[int, Field(ge=1)]

    contracts = Contracts()
    contracts.register(Placed, name="placed", version=1)
    event = Placed(uuid4(), UtcInstant.now(), 5)
    message = contracts.encode(event)
    assert contracts.decode(message) == event
    with pytest.raises(PayloadFieldError, match="total is wrong"):
        contracts.decode(replace(message, payload=message.payload.replace('"total":5', '"total":0')))


def test_a_model_may_name_types_that_are_defined_later() -> None:
    contracts = Contracts()
    contracts.register(Early, name="early", version=1)
    event = Early(late=Late(value=1))
    assert contracts.decode(contracts.encode(event)) == event


def test_an_older_payload_becomes_a_model(contracts: Contracts) -> None:
    contracts.upcast(
        name="changeable",
        from_version=1,
        to_version=2,
        upcaster=lambda payload: {**payload, "lines": [{"sku": each} for each in payload.pop("items")]},
    )

    class Newer(BaseModel):  # type: ignore[misc,valid-type]
        id: UUID
        occurred_at: UtcInstant
        lines: list[Line]

    contracts.register(Newer, name="changeable", version=2)
    event = contracts.decode(contracts.encode(Changeable(items=["a", "b"])))
    assert [line.sku for line in event.lines] == ["a", "b"]


class Early(BaseModel):  # type: ignore[misc,valid-type]
    id: UUID = Field(default_factory=uuid4)
    occurred_at: UtcInstant = Field(default_factory=UtcInstant.now)
    late: "Late"


class Late(BaseModel):  # type: ignore[misc,valid-type]
    value: int
