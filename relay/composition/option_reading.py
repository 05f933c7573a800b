"""Options from text and mappings: names checked with a suggestion, values converted, all problems at once."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, get_origin, get_type_hints

import msgspec

from uow.errors import FixTheCodeError
from uow.suggestion import did_you_mean

Options = TypeVar("Options")
_KINDS: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class OptionError(FixTheCodeError):
    """Options that are unknown or break a rule; `problems` has one sentence for each, naming the option."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems) if len(problems) == 1 else "".join(f"\n  {p}" for p in problems))
        self.problems = tuple(problems)


def read_options(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """An options dataclass of this kind from a mapping, nested as its fields are: `{"outbox": {...}}`.

    Text is converted ("500" for a number, "true" for a switch, "a,b" for several, "a=1,b=2" for a mapping),
    so values may come from the environment or a configuration file; a value that is an options object
    already is taken as it is. Raises OptionError with every unknown name, every value of the wrong kind and
    every broken rule.
    """
    problems: list[str] = []
    options = _read(kind, values, "", problems)
    if problems or options is None:
        raise OptionError(problems)
    return options


def _read(kind: type[Options], values: Mapping[str, Any], path: str, problems: list[str]) -> Options | None:
    types = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init]  # type: ignore[arg-type]
    found_before = len(problems)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name in names:
            arguments[name] = _value(types[name], value, f"{path}{name}", problems)
        else:
            problems.append(f"unknown option {f'{path}{name}'!r}{did_you_mean(name, names)}")
    if len(problems) > found_before:
        return None
    try:
        return kind(**arguments)
    except (ValueError, TypeError) as error:
        problems.append(f"option {path}{error}")
        return None


def _value(kind: Any, value: Any, path: str, problems: list[str]) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, kind):
            return value
        if isinstance(value, Mapping):
            return _read(kind, value, f"{path}.", problems)
        problems.append(f"option {path!r} is a group of options, not {type(value).__name__}")
        return None
    try:
        return msgspec.convert(_parted(kind, value), kind, strict=not isinstance(value, str))
    except msgspec.ValidationError:
        wanted = _KINDS.get(kind, str(kind))
        shown = f" {value!r}" if isinstance(value, int | float) else ""  # text might be a secret
        problems.append(f"option {path!r} must be {wanted}, not {type(value).__name__}{shown}")
        return None


def _parted(kind: Any, value: Any) -> Any:
    """Text for an option that holds several values, as those values."""
    if not isinstance(value, str) or get_origin(kind) not in {tuple, Mapping}:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if get_origin(kind) is tuple:
        return parts
    pairs = [part.partition("=") for part in parts]
    return {name.strip(): number.strip() for name, _, number in pairs}
