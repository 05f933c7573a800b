"""Sets that pydantic writes: in the order of their members' texts, so that equal sets give one text.

Python iterates sets of texts in another order in each process. An operation that is repeated elsewhere with
the same identity must give the same payload, or it would conflict with itself.
"""

from collections.abc import Set as AbstractSet
from typing import Any, get_args, get_origin

import orjson

from uow.contracts.json_text import write_json
from uow.contracts.schema import classes_below, pydantic_fields
from uow.contracts.structure import field_names, has_fields


def declares_sets(event_type: type) -> bool:
    """Whether a field at any depth of a pydantic class is declared as a set of some kind."""
    return any(
        _mentions_set(getattr(field, "annotation", getattr(field, "type", None)))
        for each in classes_below(event_type)
        for field in pydantic_fields(each).values()
    )


def with_ordered_sets(event: Any, body: bytes) -> bytes:
    """`body`, the JSON text that pydantic wrote of `event`, with its sets in order."""
    return write_json(_ordered(event, orjson.loads(body)))


def _mentions_set(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return True  # a plain dataclass that postpones its annotations; it may be one
    kind = get_origin(annotation) or annotation
    meaning = getattr(kind, "__value__", None)  # of a `type` statement
    if meaning is not None:
        return _mentions_set(meaning)
    if isinstance(kind, type) and issubclass(kind, AbstractSet):
        return True
    return any(_mentions_set(argument) for argument in get_args(annotation))


def _ordered(value: Any, written: Any) -> Any:
    """What was written of `value`; left alone where a serializer of the class wrote another shape."""
    if has_fields(value) and isinstance(written, dict):
        for name in field_names(value):
            key = _written_name(value, name)
            if key in written:
                written[key] = _ordered(getattr(value, name), written[key])
    elif isinstance(value, dict) and isinstance(written, dict) and len(value) == len(written):
        return {
            key: _ordered(part, each)
            for part, (key, each) in zip(value.values(), written.items(), strict=True)
        }
    elif (
        isinstance(value, list | tuple | set | frozenset)
        and isinstance(written, list)
        and len(value) == len(written)
    ):
        members = [_ordered(part, each) for part, each in zip(value, written, strict=True)]
        return sorted(members, key=write_json) if isinstance(value, set | frozenset) else members
    return written


def _written_name(value: Any, name: str) -> str:
    field = pydantic_fields(type(value)).get(name)
    alias: str | None = getattr(field, "serialization_alias", None) or getattr(field, "alias", None)
    return alias or name
