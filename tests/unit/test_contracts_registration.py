"""Registration is the allow-list: what may be registered, and what is refused with words that help."""

import subprocess
import sys
from dataclasses import InitVar, dataclass, make_dataclass
from typing import Any
from uuid import UUID

import pytest

from uow.contracts import ContractDefinitionError, Contracts, UnregisteredEventError
from uow.event import Event, IntegrationEvent
from uow.text import TextError
from uow.ticks import UtcInstant


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    order_id: int


@dataclass(frozen=True, kw_only=True)
class OrderPaid(Event):
    order_id: int


@dataclass(eq=False)
class Identityless:
    value: int = 0


@pytest.fixture
def contracts() -> Contracts:
    return Contracts()


def test_a_registered_class_has_a_contract_by_class_and_by_event(contracts: Contracts) -> None:
    contract = contracts.register(OrderPlaced, name="orders.placed", version=1)
    assert contracts.contract_of(OrderPlaced) is contract
    assert contracts.contract_of(OrderPlaced(order_id=1)) is contract
    assert (contract.name, contract.version, contract.event_type) == ("orders.placed", 1, OrderPlaced)
    assert contract.routing_key == "orders.placed.v1"
    assert list(contracts) == [contract]
    assert len(contracts) == 1
    assert OrderPlaced in contracts
    assert OrderPaid not in contracts
    assert contracts.names == {"orders.placed"}


def test_the_decorator_registers_and_returns_the_class(contracts: Contracts) -> None:
    @contracts.event("orders.shipped", version=2)
    @dataclass(frozen=True, kw_only=True)
    class OrderShipped(Event):
        order_id: int

    assert contracts.contract_of(OrderShipped).routing_key == "orders.shipped.v2"
    assert isinstance(OrderShipped(order_id=1), IntegrationEvent)


def test_an_unregistered_class_is_named_with_what_to_do(contracts: Contracts) -> None:
    contracts.register(OrderPlaced, name="orders.placed", version=1)

    @dataclass(frozen=True, kw_only=True)
    class Derived(OrderPlaced):
        pass

    for event in (OrderPaid(order_id=1), OrderPaid, Derived(order_id=1), object()):
        with pytest.raises(UnregisteredEventError, match=r"is not registered; call contracts\.register"):
            contracts.contract_of(event)
    with pytest.raises(UnregisteredEventError, match=r"OrderPaid is not registered"):
        contracts.encode(OrderPaid(order_id=1))
    with pytest.raises(UnregisteredEventError, match="give an instance of OrderPlaced"):
        contracts.encode(OrderPlaced)


def test_a_class_has_one_contract_and_a_contract_one_class(contracts: Contracts) -> None:
    contracts.register(OrderPlaced, name="orders.placed", version=1)
    with pytest.raises(ContractDefinitionError, match=r"is registered already as orders\.placed\.v1"):
        contracts.register(OrderPlaced, name="orders.placed", version=2)
    with pytest.raises(ContractDefinitionError, match=r"orders\.placed\.v1 is registered already for OrderP"):
        contracts.register(OrderPaid, name="orders.placed", version=1)
    contracts.register(OrderPaid, name="orders.placed", version=2)
    assert contracts.readable_versions("orders.placed") == {1, 2}


def test_names_that_differ_by_case_are_different(contracts: Contracts) -> None:
    contracts.register(OrderPlaced, name="Audit", version=1)
    contracts.register(OrderPaid, name="audit", version=1)
    assert contracts.names == {"Audit", "audit"}


@pytest.mark.parametrize("version", [0, -1, 2**31, 1.0, "1", True, None])
def test_a_version_is_a_whole_number_from_1(contracts: Contracts, version: Any) -> None:
    with pytest.raises(ContractDefinitionError, match="version must be a whole number from 1 to 2147483647"):
        contracts.register(OrderPlaced, name="orders.placed", version=version)


def test_the_highest_version_is_accepted(contracts: Contracts) -> None:
    contracts.register(OrderPlaced, name="orders.placed", version=2**31 - 1)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "contract name must not be blank"),
        ("  ", "contract name must not be blank"),
        ("a" * 201, "contract name must have at most 200 UTF-16 units, not 201"),
        ("\U0001f600" * 101, "contract name must have at most 200 UTF-16 units, not 202"),
        ("orders.*", r"contract name must not contain '\*'"),
        ("orders.#", "contract name must not contain '#'"),
        ("orders\nplaced", "contract name must not contain control characters"),
        ("orders\x00", "contract name must not contain NUL"),
        ("orders\ud800", "contract name must not contain a lone surrogate"),
        ("\u20ac" * 84, "routing key .* must have at most 254 UTF-8 bytes, not 255"),
        (None, "contract name must be text, not NoneType"),
    ],
)
def test_a_name_over_a_limit_is_refused(contracts: Contracts, name: Any, rule: str) -> None:
    with pytest.raises(TextError, match=rule):
        contracts.register(OrderPlaced, name=name, version=1)
    assert len(contracts) == 0


@pytest.mark.parametrize(
    ("name", "version"),
    [("a" * 200, 1), ("\U0001f600" * 62 + "ab", 10), ("\u20ac" * 83 + "ab", 1), ("\u20ac" * 83 + "a", 10)],
)
def test_a_name_at_its_limit_is_accepted(contracts: Contracts, name: str, version: int) -> None:
    contract = contracts.register(OrderPlaced, name=name, version=version)
    assert len(contract.routing_key.encode()) <= 254


def test_the_version_counts_in_the_bytes_of_the_routing_key(contracts: Contracts) -> None:
    with pytest.raises(TextError, match="not 255"):
        contracts.register(OrderPlaced, name="\u20ac" * 83 + "ab", version=10)


def test_a_dataclass_without_equality_is_refused(contracts: Contracts) -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Placed(Event):
        order_id: int

    with pytest.raises(ContractDefinitionError, match="Placed is a dataclass with eq=False"):
        contracts.register(Placed, name="orders.placed", version=1)


def test_a_nested_dataclass_without_equality_is_refused(contracts: Contracts) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Placed(Event):
        lines: dict[str, list[Identityless | None]]

    with pytest.raises(ContractDefinitionError, match="Identityless is a dataclass with eq=False"):
        contracts.register(Placed, name="orders.placed", version=1)


def test_a_derived_class_that_forgot_the_decorator_is_refused(contracts: Contracts) -> None:
    class Placed(Event):
        order_id: int

    with pytest.raises(ContractDefinitionError, match="derives from a dataclass but is none itself"):
        contracts.register(Placed, name="orders.placed", version=1)


@pytest.mark.parametrize("missing", ["id", "occurred_at"])
def test_an_event_needs_identity_and_time(contracts: Contracts, missing: str) -> None:
    fields = {"id": UUID, "occurred_at": UtcInstant}
    del fields[missing]
    cls = make_dataclass("Placed", fields.items(), frozen=True)
    with pytest.raises(ContractDefinitionError, match=f"Placed has no field '{missing}'"):
        contracts.register(cls, name="orders.placed", version=1)


@pytest.mark.parametrize(("field", "expected"), [("id", "UUID"), ("occurred_at", "UtcInstant")])
def test_identity_and_time_have_their_types(contracts: Contracts, field: str, expected: str) -> None:
    fields = {"id": UUID, "occurred_at": UtcInstant, field: str}
    cls = make_dataclass("Placed", fields.items(), frozen=True)
    with pytest.raises(ContractDefinitionError, match=f"Placed.{field} must be declared as {expected}"):
        contracts.register(cls, name="orders.placed", version=1)


def test_fields_that_cannot_be_read_back_are_named(contracts: Contracts) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Placed(Event):
        stream: complex

    with pytest.raises(
        ContractDefinitionError, match=r"Placed\.stream has type complex, which cannot be read"
    ):
        contracts.register(Placed, name="orders.placed", version=1)


def test_a_union_that_json_cannot_tell_apart_is_refused(contracts: Contracts) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Placed(Event):
        reference: str | UUID

    with pytest.raises(ContractDefinitionError, match="Placed cannot be read from JSON: Type unions"):
        contracts.register(Placed, name="orders.placed", version=1)


def test_fields_for_the_constructor_alone_are_refused(contracts: Contracts) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Placed(Event):
        secret: InitVar[int]

    with pytest.raises(ContractDefinitionError, match="InitVar"):
        contracts.register(Placed, name="orders.placed", version=1)


@pytest.mark.parametrize("thing", [int, object(), "orders.Placed", None, list[int]])
def test_only_classes_with_fields_can_be_events(contracts: Contracts, thing: Any) -> None:
    with pytest.raises(ContractDefinitionError, match="a dataclass or a pydantic model"):
        contracts.register(thing, name="orders.placed", version=1)


def test_a_class_may_name_types_that_are_defined_later(contracts: Contracts) -> None:
    contracts.register(Early, name="early", version=1)
    event = Early(late=Late(value=1))
    assert contracts.decode(contracts.encode(event)) == event


def test_a_type_name_that_is_never_defined_is_refused_at_first_use(contracts: Contracts) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Placed(Event):
        lines: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    contracts.register(Placed, name="orders.placed", version=1)
    with pytest.raises(ContractDefinitionError, match="Placed uses a type name that is not defined"):
        contracts.encode(Placed(lines=1))


def test_importing_contracts_imports_no_pydantic_and_no_broker() -> None:
    program = (
        "import sys, uow.contracts, uow.event, uow.telemetry, uow.text\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'pydantic', 'kombu', 'attr'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@dataclass(frozen=True, kw_only=True)
class Early(Event):
    late: "Late"


@dataclass(frozen=True, kw_only=True)
class Late:
    value: int
