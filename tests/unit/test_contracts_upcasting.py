"""Older payloads become newer classes when they are read; what is stored stays."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from uow.contracts import (
    ContractDefinitionError,
    Contracts,
    EnvelopeMismatchError,
    PayloadFieldError,
    UnknownVersionError,
)
from uow.event import Event
from uow.message import Message
from uow.ticks import UtcInstant


@dataclass(frozen=True, kw_only=True)
class OrderPlacedV1(Event):
    total: str


@dataclass(frozen=True, kw_only=True)
class OrderPlacedV3(Event):
    total: Decimal
    currency: str


def to_v2(payload: dict[str, Any]) -> dict[str, Any]:
    amount, currency = payload.pop("total").split()
    return {**payload, "amount": amount, "currency": currency}


def to_v3(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "total": Decimal(payload.pop("amount"))}


@pytest.fixture
def contracts() -> Contracts:
    contracts = Contracts()
    contracts.upcast(name="orders.placed", from_version=1, to_version=2, upcaster=to_v2)
    contracts.upcast(name="orders.placed", from_version=2, to_version=3, upcaster=to_v3)
    contracts.register(OrderPlacedV3, name="orders.placed", version=3)
    return contracts


@pytest.fixture
def stored() -> Message:
    writers = Contracts()
    writers.register(OrderPlacedV1, name="orders.placed", version=1)
    return writers.encode(OrderPlacedV1(total="12.50 EUR"))


def test_upcasters_chain_to_the_newest_class(contracts: Contracts, stored: Message) -> None:
    before = stored.payload
    event = contracts.decode(stored)
    assert event == OrderPlacedV3(
        id=stored.id, occurred_at=stored.occurred_at, total=Decimal("12.50"), currency="EUR"
    )
    assert stored.payload == before
    assert contracts.decode(stored) == event


def test_a_version_between_is_read_though_it_has_no_class(contracts: Contracts, stored: Message) -> None:
    payload = stored.payload.replace('"total":"12.50 EUR"', '"amount":"12.50","currency":"EUR"')
    message = replace(stored, contract_version=2, payload=payload)
    assert contracts.decode(message).total == Decimal("12.50")


def test_versions_that_can_be_read_are_told(contracts: Contracts) -> None:
    assert contracts.readable_versions("orders.placed") == {1, 2, 3}
    assert contracts.source_versions(OrderPlacedV3) == {1, 2, 3}
    assert contracts.target_of("orders.placed", 1).event_type is OrderPlacedV3
    with pytest.raises(UnknownVersionError):
        contracts.target_of("orders.placed", 4)


def test_the_class_of_an_older_version_still_writes_but_is_no_longer_read(contracts: Contracts) -> None:
    contracts.register(OrderPlacedV1, name="orders.placed", version=1)
    message = contracts.encode(OrderPlacedV1(total="1 EUR"))
    assert message.contract_version == 1
    assert isinstance(contracts.decode(message), OrderPlacedV3)
    assert contracts.source_versions(OrderPlacedV1) == frozenset()


def test_versions_live_side_by_side_without_upcasters(stored: Message) -> None:
    contracts = Contracts()
    contracts.register(OrderPlacedV1, name="orders.placed", version=1)
    contracts.register(OrderPlacedV3, name="orders.placed", version=3)
    assert isinstance(contracts.decode(stored), OrderPlacedV1)
    newer = contracts.encode(OrderPlacedV3(total=Decimal(1), currency="EUR"))
    assert isinstance(contracts.decode(newer), OrderPlacedV3)


def test_upcasters_that_lead_to_no_class_make_nothing_readable(stored: Message) -> None:
    contracts = Contracts()
    contracts.register(OrderPlacedV3, name="orders.placed", version=3)
    contracts.upcast(name="orders.placed", from_version=1, to_version=2, upcaster=to_v2)
    assert contracts.readable_versions("orders.placed") == {3}
    with pytest.raises(UnknownVersionError):
        contracts.decode(stored)


def test_the_fewest_steps_are_taken(contracts: Contracts, stored: Message) -> None:
    taken = []

    def straight(payload: dict[str, Any]) -> dict[str, Any]:
        taken.append(1)
        return to_v3(to_v2(payload))

    contracts.upcast(name="orders.placed", from_version=1, to_version=3, upcaster=straight)
    assert contracts.decode(stored).currency == "EUR"
    assert taken == [1]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"id": str(uuid4())}, "id"), ({"occurred_at": str(UtcInstant(1))}, "occurred_at")],
)
def test_an_upcaster_may_not_change_the_identity(stored: Message, change: dict[str, str], field: str) -> None:
    contracts = Contracts()
    contracts.register(OrderPlacedV3, name="orders.placed", version=3)
    contracts.upcast(
        name="orders.placed",
        from_version=1,
        to_version=3,
        upcaster=lambda payload: {**payload, "total": "1", "currency": "EUR", **change},
    )
    with pytest.raises(EnvelopeMismatchError) as caught:
        contracts.decode(stored)
    assert caught.value.field == field


def test_an_upcaster_that_leaves_a_field_out_is_found_out(stored: Message) -> None:
    contracts = Contracts()
    contracts.register(OrderPlacedV3, name="orders.placed", version=3)
    contracts.upcast(name="orders.placed", from_version=1, to_version=3, upcaster=lambda payload: payload)
    with pytest.raises(PayloadFieldError, match="must be a decimal number"):
        contracts.decode(stored)


def test_large_integers_survive_an_upcaster() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Counted(Event):
        count: int

    contracts = Contracts()
    contracts.register(Counted, name="counted", version=2)
    contracts.upcast(name="counted", from_version=1, to_version=2, upcaster=lambda payload: payload)
    event = Counted(count=2**64 - 1)
    message = replace(contracts.encode(event), contract_version=1)
    assert contracts.decode(message) == event


@pytest.mark.parametrize(
    ("from_version", "to_version", "rule"),
    [
        (2, 1, "must lead to a later version"),
        (1, 1, "must lead to a later version"),
        (0, 1, "from_version must be a whole number"),
        (1, 2.0, "to_version must be a whole number"),
    ],
)
def test_an_upcaster_leads_forward(from_version: Any, to_version: Any, rule: str) -> None:
    with pytest.raises(ContractDefinitionError, match=rule):
        Contracts().upcast(
            name="orders.placed", from_version=from_version, to_version=to_version, upcaster=to_v2
        )


def test_there_is_one_upcaster_for_a_step(contracts: Contracts) -> None:
    with pytest.raises(ContractDefinitionError, match="v1 has an upcaster to v2 already"):
        contracts.upcast(name="orders.placed", from_version=1, to_version=2, upcaster=to_v2)
    with pytest.raises(ContractDefinitionError, match="upcaster must be callable"):
        contracts.upcast(name="orders.placed", from_version=1, to_version=5, upcaster=None)  # type: ignore[arg-type]
