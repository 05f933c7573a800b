"""Reading the arguments of a job."""

import json
from typing import Any

import msgspec

from jobs.execution.errors import JobArgumentsError


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
        place = str(error).partition(" - at ")[2] or "the whole"
        raise JobArgumentsError(f"the arguments are no {kind.__qualname__}: see {place}") from None
