"""Reading the arguments of a job."""

import json
import re
from typing import Any, Final

import msgspec

from jobs.execution.errors import JobArgumentsError

_PLACE: Final = re.compile(r" - at (`\$[^`]*`)\Z")

_MISSING: Final = re.compile(r"missing required field `([^`]*)`")


def read_arguments(text: str) -> Any:
    """The values of this JSON text; integers keep all their digits."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JobArgumentsError(f"the arguments cannot be read: {type(error).__name__}") from None


def read_arguments_as(kind: type[Any], text: str) -> Any:
    """The same as an instance of `kind`. Raises JobArgumentsError naming the place, never the value."""
    try:
        return msgspec.convert(read_arguments(text), kind)
    except msgspec.ValidationError as error:
        name = getattr(kind, "__qualname__", str(kind))
        raise JobArgumentsError(f"the arguments are no {name}: {_fault(str(error))}") from None


def _fault(told: str) -> str:
    """Which field is missing, which name `kind` chose, or where a value does not fit."""
    place, missing = _PLACE.search(told), _MISSING.search(told)
    where = "the whole" if place is None else place[1]
    return f"see {where}" if missing is None else f"{where} lacks `{missing[1]}`"
