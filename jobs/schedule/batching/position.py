"""How far a batch job has come, as JSON text."""

import json
import math
from typing import Any, Final

from uow.errors import FixTheCodeError, LookAtItError

POSITION_UNITS: Final = 4000


class PositionError(FixTheCodeError, ValueError):
    """A position that a cursor cannot hold; the text names the part and the rule."""


class PositionUnreadableError(LookAtItError):
    """The stored position is not JSON: somebody changed it by hand. Set the cursor to one that is known."""


def write_position(position: object) -> str:
    """One JSON text for equal positions, plain ASCII, at most 4000 characters.

    A position is text, a whole number of any size, a finite float, a truth value, or a list or a dict (with
    text as keys) of such and None. A tuple is stored as a list. Raises PositionError for anything else, so
    for None alone too: that is the beginning, which no batch ends at.
    """
    if position is None:
        raise PositionError("the position is None, which is the beginning")
    try:
        _check(position, "the position")
        text = json.dumps(position, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise PositionError("the position is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, PositionError):
            raise
        raise PositionError("the position has a number of too many digits") from None
    if len(text) > POSITION_UNITS:
        raise PositionError(
            f"the position takes {len(text)} characters as JSON; {POSITION_UNITS} are allowed"
        )
    return text


def read_position(text: str | None) -> Any:
    """The position of this text, made anew each time; None for the beginning.

    Raises PositionUnreadableError.
    """
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PositionUnreadableError(
            f"the stored position of {len(text)} characters is not JSON ({type(error).__name__})"
        ) from None


def _check(value: object, path: str) -> None:
    match value:
        case None | bool() | int() | str():
            return
        case float():
            if not math.isfinite(value):
                raise PositionError(f"{path} is not finite")
        case list() | tuple():
            for number, part in enumerate(value):
                _check(part, f"{path}[{number}]")
        case dict():
            for key, part in value.items():
                if not isinstance(key, str):
                    raise PositionError(f"{path} has a key that is {type(key).__name__}, not text")
                _check(part, f"{path}[{key!a}]")
        case _:
            raise PositionError(f"{path} is {type(value).__name__}, which JSON does not know; make it text")
