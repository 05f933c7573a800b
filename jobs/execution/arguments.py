"""Reading the arguments of a job."""

import json
import re
from typing import Any, Final

import msgspec

from jobs.execution.errors import JobArgumentsError

_PLACE: Final = re.compile(r" - at (`\$[^`]*`)\Z")


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
        place = _PLACE.search(str(error))
        name = getattr(kind, "__qualname__", str(kind))
        raise JobArgumentsError(
            f"the arguments are no {name}: see {'the whole' if place is None else place[1]}"
        ) from None
