"""From JSON text to values, with errors that never repeat the text.

Errors are raised outside the `except` that caught the converter's, so that no chain leads back to it.
"""

import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from uow.contracts.error import DecodeError, EnvelopeMismatchError, MalformedPayloadError, PayloadFieldError
from uow.message import Message
from uow.ticks import UtcInstant

_Value = TypeVar("_Value")

_PATH: Final = re.compile(r" - at (`key` in )?`\$((?:\.[^.\[\]`]+|\[\d+\]|\[\.\.\.\])*)`\Z")
_STEP: Final = re.compile(r"\.([^.\[\]`]+)|(\[\d+\])|(\[(?:\.\.\.|key)\])")
_EXPECTED: Final = re.compile(
    r"Expected `[a-z0-9 |_-]+`(?: (?:of length )?(?:>=|<=|>|<|==) [0-9.e+-]+)?(?:, got `[a-z]+`)?"
)
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`")
_FIXED: Final = {
    "Invalid UUID": "must be a UUID",
    "Invalid RFC3339 encoded datetime": "must be a date and time as in RFC 3339",
    "Invalid RFC3339 encoded date": "must be a date as in RFC 3339",
    "Invalid RFC3339 encoded time": "must be a time as in RFC 3339",
    "Invalid ISO8601 duration": "must be a duration as in ISO 8601",
    "Invalid base64 encoded string": "must be base64 text",
    "Invalid decimal string": "must be a decimal number",
    "Number out of range": "is a number out of range",
    "Integer value out of range": "is an integer out of range",
}


class _Identity(msgspec.Struct, gc=False):
    id: UUID
    occurred_at: str


_IDENTITY: Final = msgspec.json.Decoder(_Identity)
_IDENTITY_NAMES: Final = frozenset({"id", "occurred_at"})


def check_identity(message: Message) -> None:
    """Check that the payload is a JSON object whose `id` and `occurred_at` are those of the envelope.

    Needs no registered contract. Raises MalformedPayloadError, PayloadFieldError or EnvelopeMismatchError.
    """
    contract = message.routing_key
    identity = read_safely(
        lambda: _IDENTITY.decode(message.payload),
        lambda error: reading_error(contract, error, _IDENTITY_NAMES),
    )
    if identity.id != message.id:
        raise EnvelopeMismatchError(contract, "id")
    occurred_at = read_safely(
        lambda: UtcInstant.parse(identity.occurred_at),
        lambda _: PayloadFieldError(
            contract, "occurred_at", "must be UTC text like 2026-01-01T00:00:00.0000000Z"
        ),
    )
    if occurred_at != message.occurred_at:
        raise EnvelopeMismatchError(contract, "occurred_at")


def read_safely(read: Callable[[], _Value], problem: Callable[[Exception], DecodeError]) -> _Value:
    """What `read` returns; when it fails, raises what `problem` makes of the failure, with no chain to it."""
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - an event class may raise anything; all is raised again below
        translated = problem(error)
    raise translated


def reading_error(contract: str, error: Exception, names: AbstractSet[str]) -> DecodeError:
    """Our error for one of msgspec's, or of an event class; `names` are the field names that may be shown."""
    match error:
        case msgspec.ValidationError():
            return _validation_error(contract, str(error), names)
        case msgspec.DecodeError() | UnicodeError():
            return MalformedPayloadError(f"{contract}: the payload is not valid JSON")
        case RecursionError():
            return MalformedPayloadError(f"{contract}: the payload is nested too deep")
    return PayloadFieldError(contract, "", f"was refused by the event class ({type(error).__name__})")


def safe_path(text: str, names: AbstractSet[str]) -> str:
    """A path such as `.lines[0].price` in which every name that is not declared is hidden."""
    steps = []
    for name, index, hidden in _STEP.findall(text):
        steps.append(f".{name}" if name in names else index or hidden or "[...]")
    return "".join(steps).removeprefix(".")


def hidden_path(steps: Iterable[str], names: AbstractSet[str]) -> str:
    """The path of a fault's steps in which everything but declared names and list positions is hidden."""
    shown = (step if step.removeprefix(".") in names or step[1:-1].isdecimal() else "[...]" for step in steps)
    return "".join(shown).removeprefix(".")


def _validation_error(contract: str, text: str, names: AbstractSet[str]) -> DecodeError:
    match = _PATH.search(text)
    path = safe_path(match.group(2) + ("[key]" if match.group(1) else ""), names) if match else ""
    problem = text[: match.start()] if match else text
    if not path and problem.startswith("Expected `object`, got `"):
        return MalformedPayloadError(f"{contract}: the payload is not a JSON object")
    missing = _MISSING.fullmatch(problem)
    if missing is not None and missing.group(1) in names:
        return PayloadFieldError(contract, f"{path}.{missing.group(1)}".removeprefix("."), "is missing")
    return PayloadFieldError(contract, path, _rule(problem))


def _rule(problem: str) -> str:
    if problem in _FIXED:
        return _FIXED[problem]
    if problem.startswith("Invalid enum value"):
        return "is not a value of its enumeration"
    if _EXPECTED.fullmatch(problem):
        return f"is wrong: {problem[0].lower()}{problem[1:]}"
    return "was refused by the event class"
