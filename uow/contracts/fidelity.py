"""Whether a value survives the journey: what no JSON text can hold, and what came back different."""

import dataclasses
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from uow.contracts.structure import field_names, has_fields, item_step, key_step, kind_of, parts_of
from uow.text import character_fault
from uow.ticks import UtcInstant

MINIMUM_INTEGER: Final = -(2**63)
MAXIMUM_INTEGER: Final = 2**64 - 1
MAXIMUM_DEPTH: Final = 100

_YEAR_ONE: Final = datetime(1, 1, 1, tzinfo=UTC)
_ABSENT: Final = object()
_ALWAYS_WRITABLE: Final = frozenset({bool, type(None), UUID, UtcInstant})
_PLAIN: Final = frozenset({str, int, float, bool, type(None), UUID, UtcInstant})


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one value; `steps` lead to it, outermost first."""

    kind: str
    rule: str
    steps: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """`lines[0].price`; empty for the event itself."""
        return "".join(self.steps).removeprefix(".")

    def below(self, step: str) -> "Fault":
        """The same fault seen from one level further out."""
        return dataclasses.replace(self, steps=(step, *self.steps))


def find_unwritable(value: object, depth: int = 0) -> Fault | None:
    """The first value that must not be written, whatever its declared type; None when there is none.

    NUL and lone surrogates in text, integers beyond 64 bits, NaN and infinities, datetimes without a zone,
    nesting deeper than 100 (which a circle is, too).
    """
    if type(value) in _ALWAYS_WRITABLE:
        return None
    if depth > MAXIMUM_DEPTH:
        return Fault(kind_of(value), f"must not be nested more than {MAXIMUM_DEPTH} deep")
    if isinstance(value, Enum):
        return find_unwritable(value.value, depth + 1)
    rule = _scalar_rule(value)
    if rule is not None:
        return Fault(kind_of(value), rule)
    for step, part in parts_of(value):
        fault = find_unwritable(part, depth + 1)
        if fault is not None:
            return fault.below(step)
    return None


def find_difference(sent: Any, returned: Any) -> Fault | None:
    """The first place where `returned` is not equal to `sent`; None when they are equal.

    Field by field, so that an `__eq__` of the class hides nothing. Aware datetimes are equal when they are
    the same instant, also inside a fold or gap of their zone, where Python's own `==` says no.
    """
    if type(sent) is type(returned) and type(sent) in _PLAIN:
        return None if sent == returned else _changed(sent, returned)
    if isinstance(sent, dict) and isinstance(returned, dict):
        return _difference_of_dicts(sent, returned)
    if isinstance(sent, list | tuple) and isinstance(returned, list | tuple):
        return _difference_of_sequences(sent, returned)
    if has_fields(sent):
        return _difference_of_fields(sent, returned)
    return None if _equal(sent, returned) else _changed(sent, returned)


def _scalar_rule(value: object) -> str | None:  # noqa: PLR0911 - one line a rule
    match value:
        case bool():
            return None
        case str():
            return character_fault(value)
        case int() if not MINIMUM_INTEGER <= value <= MAXIMUM_INTEGER:
            return "must be between -2**63 and 2**64-1"
        case float() if not math.isfinite(value):
            return "must be finite; JSON has neither NaN nor infinity"
        case Decimal() if value.is_nan():
            return "must be a number; NaN equals nothing, not even itself"
        case datetime() if value.utcoffset() is None:
            return "must have a time zone; a naive datetime is not an instant"
    return None


def _difference_of_fields(sent: Any, returned: Any) -> Fault | None:
    if type(sent) is not type(returned):
        return _changed(sent, returned)
    for name in dict.fromkeys((*field_names(sent), *field_names(returned))):
        ours, theirs = getattr(sent, name, _ABSENT), getattr(returned, name, _ABSENT)
        if ours is not _ABSENT and theirs is _ABSENT:
            return Fault(kind_of(ours), "would be lost; the JSON text has no place for it", (f".{name}",))
        fault = find_difference(ours, theirs)
        if fault is not None:
            return fault.below(f".{name}")
    return None


def _difference_of_dicts(sent: dict[Any, Any], returned: dict[Any, Any]) -> Fault | None:
    # Both keep the order of the JSON text; pairing by order lets keys be compared like all other values.
    for (key, value), (other_key, other_value) in zip(sent.items(), returned.items(), strict=False):
        fault = find_difference(key, other_key)
        if fault is not None:
            return fault.below(key_step(key))
        fault = find_difference(value, other_value)
        if fault is not None:
            return fault.below(item_step(key))
    return _difference_of_sizes(sent, returned)


def _difference_of_sequences(sent: Any, returned: Any) -> Fault | None:
    if isinstance(sent, list) is not isinstance(returned, list):
        return _changed(sent, returned)
    for index, (ours, theirs) in enumerate(zip(sent, returned, strict=False)):
        fault = find_difference(ours, theirs)
        if fault is not None:
            return fault.below(f"[{index}]")
    return _difference_of_sizes(sent, returned)


def _difference_of_sizes(sent: Any, returned: Any) -> Fault | None:
    if len(sent) == len(returned):
        return None
    return Fault(kind_of(sent), f"would come back with {len(returned)} members instead of {len(sent)}")


def _changed(sent: object, returned: object) -> Fault:
    if type(sent) is type(returned):
        return Fault(kind_of(sent), "would come back with another value")
    return Fault(kind_of(sent), f"would come back as {kind_of(returned)}; declare its exact type")


def _equal(sent: Any, returned: Any) -> bool:
    if isinstance(sent, bool) is not isinstance(returned, bool):
        return False
    if isinstance(sent, set | frozenset) and isinstance(returned, set | frozenset):
        return {_comparable(part) for part in sent} == {_comparable(part) for part in returned}
    try:
        return bool(_comparable(sent) == _comparable(returned))
    except (ArithmeticError, TypeError, ValueError):
        return False


def _comparable(value: Any) -> Any:
    match value:
        case datetime():
            return _instant(value)
        case tuple():
            return tuple(_comparable(part) for part in value)
        case frozenset():
            return frozenset(_comparable(part) for part in value)
    return value


def _instant(moment: datetime) -> timedelta | datetime:
    """The time since year 1 in UTC, reckoned without `astimezone`, which fails near year 1 and 9999."""
    offset = moment.utcoffset()
    return moment if offset is None else moment.replace(tzinfo=UTC) - _YEAR_ONE - offset
