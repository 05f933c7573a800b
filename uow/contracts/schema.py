"""What is declared inside an event class: field names that may be shown, and types that can be read back."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final, get_args
from uuid import UUID

from msgspec import inspect

from uow.contracts.contract import check_dataclass_equality, is_pydantic_model
from uow.contracts.error import ContractDefinitionError
from uow.ticks import UtcInstant

IDENTITY_TYPES: Final[dict[str, type]] = {"id": UUID, "occurred_at": UtcInstant}


def check_identity_type(class_name: str, field: str, declared: object) -> None:
    """Refuse an identity field of another type than UUID or UtcInstant."""
    expected = IDENTITY_TYPES.get(field)
    if expected is not None and declared is not expected:
        raise ContractDefinitionError(f"{class_name}.{field} must be declared as {expected.__name__}")


def names_in_dataclass(event_type: type) -> frozenset[str]:
    """All field names at any depth of a dataclass.

    Raises ContractDefinitionError for a type that cannot be written and read back, NameError for a type name
    that is not defined yet.
    """
    name = event_type.__qualname__
    names: set[str] = set()
    for path, kind in _types_below(inspect.type_info(event_type), name, set()):
        _check_type(path, kind)
        names.update(field.encode_name for field in getattr(kind, "fields", ()))
    return frozenset(names)


def names_in_pydantic(event_type: type) -> frozenset[str]:
    """All field names at any depth of a pydantic model or pydantic dataclass."""
    names: set[str] = set()
    for each in classes_below(event_type):
        names.update(pydantic_fields(each))
    return frozenset(names)


def classes_below(event_type: type) -> Iterator[type]:
    """A pydantic class, and each pydantic class or dataclass that its fields name at any depth, once."""
    return _classes_below(event_type, set())


def pydantic_fields(model: Any) -> dict[str, Any]:
    """The fields of a pydantic model or pydantic dataclass by name (names alone for a plain dataclass)."""
    if is_pydantic_model(model):
        return dict(model.model_fields)
    fields = getattr(model, "__pydantic_fields__", None)
    return dict(fields) if fields is not None else {field.name: field for field in dataclasses.fields(model)}


def _check_type(path: str, kind: inspect.Type) -> None:
    match kind:
        case inspect.CustomType(cls=found) if found is not UtcInstant:
            raise ContractDefinitionError(f"{path} has type {_name(found)}, which cannot be read from JSON")
        case inspect.DataclassType(cls=found):
            if not dataclasses.is_dataclass(found):
                raise ContractDefinitionError(f"{path} has type {_name(found)}; use a dataclass")
            check_dataclass_equality(found)
        case inspect.StructType(cls=found):
            raise ContractDefinitionError(f"{path} has type {_name(found)}; use a dataclass")


def _types_below(kind: inspect.Type, path: str, seen: set[int]) -> Iterator[tuple[str, inspect.Type]]:
    yield path, kind
    if isinstance(kind, inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType):
        if id(kind) in seen:
            return
        seen.add(id(kind))
        for field in kind.fields:
            yield from _types_below(field.type, f"{path}.{field.name}", seen)
    for attribute in ("type", "item_type", "key_type", "value_type"):
        inner = getattr(kind, attribute, None)
        if isinstance(inner, inspect.Type):
            yield from _types_below(inner, path, seen)
    for inner in (*getattr(kind, "types", ()), *getattr(kind, "item_types", ())):
        yield from _types_below(inner, path, seen)


def _classes_below(annotation: Any, seen: set[Any]) -> Iterator[type]:
    for argument in get_args(annotation):
        yield from _classes_below(argument, seen)
    if not isinstance(annotation, type) or annotation in seen:
        return
    if is_pydantic_model(annotation) or dataclasses.is_dataclass(annotation):
        seen.add(annotation)
        yield annotation
        for field in pydantic_fields(annotation).values():
            yield from _classes_below(getattr(field, "annotation", getattr(field, "type", None)), seen)


def _name(found: object) -> str:
    return getattr(found, "__qualname__", repr(found))
