"""The parts of a value and the paths to them, for dataclasses, pydantic models and containers alike."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from uow.contracts.contract import is_pydantic_model

_names_by_class: Final["WeakKeyDictionary[type, tuple[str, ...] | None]"] = WeakKeyDictionary()


def kind_of(value: object) -> str:
    """The name of its type."""
    return type(value).__name__


def parts_of(value: object) -> Iterator[tuple[str, object]]:
    """Each part with the step that leads to it (`.name`, `[0]`, `['key']`); nothing for a plain value."""
    if has_fields(value):
        for name in field_names(value):
            yield f".{name}", getattr(value, name, None)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key_step(key), key
            yield item_step(key), part
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield f"[{index}]", part
    elif isinstance(value, set | frozenset):
        for part in value:
            yield "[...]", part


def key_step(key: object) -> str:
    """The step to a key itself: `[key 'colour']`."""
    return f"[key {_shown(key)}]"


def item_step(key: object) -> str:
    """The step to what stands under a key: `['colour']`."""
    return f"[{_shown(key)}]"


def has_fields(value: object) -> bool:
    """Whether it is an instance of a dataclass or of a pydantic model."""
    return _declared_names(type(value)) is not None


def field_names(value: Any) -> tuple[str, ...]:
    """The names of all fields, of a pydantic model also its extra and private ones."""
    declared = _declared_names(type(value)) or ()
    extra = getattr(value, "__pydantic_extra__", None) or {}
    private = getattr(value, "__pydantic_private__", None) or {}
    return (*declared, *extra, *private) if extra or private else declared


def value_at(value: Any, path: str) -> Any:
    """What stands at a path such as `lines[0].price`, or the last thing on the way that could be reached."""
    for step in path.replace("[", ".[").split("."):
        try:
            if step.startswith("["):
                value = value[int(step[1:-1])]
            elif step:
                value = getattr(value, step)
        except (AttributeError, LookupError, TypeError, ValueError):
            return value
    return value


def _declared_names(kind: type) -> tuple[str, ...] | None:
    try:
        return _names_by_class[kind]
    except KeyError:
        names = _names_by_class[kind] = _find_names(kind)
        return names


def _find_names(kind: type) -> tuple[str, ...] | None:
    if is_pydantic_model(kind):
        return tuple(kind.model_fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return None


def _shown(key: object) -> str:
    text = ascii(key)
    return text if len(text) <= 40 else f"{text[:37]}..."
