"""The parts of a value and the paths to them, for dataclasses, pydantic models and containers alike."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from uow.contracts.contract import is_pydantic_model


def kind_of(value: object) -> str:
    """The name of its type."""
    return type(value).__name__


def parts_of(value: object) -> Iterator[tuple[str, object]]:
    """Each part with the step that leads to it (`.name`, `[0]`, `['key']`); nothing for a plain value."""
    match value:
        case dict():
            for key, part in value.items():
                yield key_step(key), key
                yield item_step(key), part
        case list() | tuple():
            for index, part in enumerate(value):
                yield f"[{index}]", part
        case set() | frozenset():
            for part in value:
                yield "[...]", part
        case _ if has_fields(value):
            for name in field_names(value):
                yield f".{name}", getattr(value, name, None)


def key_step(key: object) -> str:
    """The step to a key itself: `[key 'colour']`."""
    return f"[key {_shown(key)}]"


def item_step(key: object) -> str:
    """The step to what stands under a key: `['colour']`."""
    return f"[{_shown(key)}]"


def has_fields(value: object) -> bool:
    """Whether it is an instance of a dataclass or of a pydantic model."""
    return (dataclasses.is_dataclass(value) and not isinstance(value, type)) or is_pydantic_model(type(value))


def field_names(value: Any) -> Iterable[str]:
    """The names of all fields, of a pydantic model also its extra and private ones."""
    if not is_pydantic_model(type(value)):
        return [field.name for field in dataclasses.fields(value)]
    private = value.__pydantic_private__ or {}
    return [*type(value).model_fields, *(value.__pydantic_extra__ or {}), *private]


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


def _shown(key: object) -> str:
    text = ascii(key)
    return text if len(text) <= 40 else f"{text[:37]}..."
