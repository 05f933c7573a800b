"""A contract: one event class, a stable name and a version."""

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from uow.contracts.error import ContractDefinitionError
from uow.message import routing_key

MAXIMUM_VERSION: Final = 2**31 - 1
IDENTITY_FIELDS: Final = ("id", "occurred_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One event class under a stable name and version.

    ordering_key: gives an event's ordering key, or None for an event without one.
    """

    name: str
    version: int
    event_type: type
    ordering_key: Callable[[Any], str | None] | None = None

    @property
    def routing_key(self) -> str:
        """`{name}.v{version}`."""
        return routing_key(self.name, self.version)


def check_version(version: object, field: str = "version") -> int:
    """A contract version: a whole number from 1 to 2147483647. Raises ContractDefinitionError."""
    if type(version) is not int or not 1 <= version <= MAXIMUM_VERSION:
        raise ContractDefinitionError(f"{field} must be a whole number from 1 to {MAXIMUM_VERSION}")
    return version


def is_pydantic_model(event_type: type) -> bool:
    """Whether this is a pydantic model; never imports pydantic (a model's own module has done it)."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(event_type, pydantic.BaseModel)


def is_pydantic_dataclass(event_type: type) -> bool:
    """Whether this is a dataclass made by pydantic, which pydantic must read and write."""
    return dataclasses.is_dataclass(event_type) and "__pydantic_validator__" in event_type.__dict__


def check_event_type(event_type: object) -> type:
    """The class itself when it can be an event. Raises ContractDefinitionError saying what to change."""
    if not isinstance(event_type, type):
        raise ContractDefinitionError("register a class: a dataclass or a pydantic model")
    name = event_type.__qualname__
    if is_pydantic_model(event_type):
        fields = set(event_type.model_fields)  # type: ignore[attr-defined]
    elif "__dataclass_fields__" in event_type.__dict__:
        check_dataclass_equality(event_type)
        fields = {field.name for field in dataclasses.fields(event_type)}
    elif dataclasses.is_dataclass(event_type):
        raise ContractDefinitionError(
            f"{name} derives from a dataclass but is none itself, so its own fields would be lost; "
            "decorate it with @dataclass(frozen=True, kw_only=True)"
        )
    else:
        raise ContractDefinitionError(f"{name} must be a dataclass or a pydantic model")
    for field in IDENTITY_FIELDS:
        if field not in fields:
            raise ContractDefinitionError(f"{name} has no field {field!r}; derive it from uow.event.Event")
    return event_type


def check_dataclass_equality(dataclass_type: type) -> None:
    """Refuse a dataclass whose instances compare by identity: none would ever come back equal."""
    if not dataclass_type.__dataclass_params__.eq:  # type: ignore[attr-defined]
        raise ContractDefinitionError(
            f"{dataclass_type.__qualname__} is a dataclass with eq=False; "
            "equality by fields is needed to see that an event comes back equal"
        )
