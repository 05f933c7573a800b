"""From values to JSON text: what orjson leaves to us."""

import dataclasses
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec
import orjson

from uow.contracts.fidelity import Fault
from uow.contracts.structure import field_names, kind_of, parts_of
from uow.ticks import UtcInstant

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_MINUTE: Final = timedelta(minutes=1)


def write_json(value: object) -> bytes:
    """JSON text in UTF-8 without blanks. Raises TypeError for what has no JSON form.

    Sets are written in the order of their members' texts, so that equal sets give one text in any process.
    """
    return orjson.dumps(value, default=_write_other, option=_OPTIONS)


def find_formless(value: object) -> Fault | None:
    """The first part of `value` that `write_json` cannot write; None when it can write all."""
    parts = list(parts_of(value))
    for step, part in parts:
        is_key = isinstance(value, dict) and step.startswith("[key ")
        fault = _formless({part: None}, part) if is_key else find_formless(part)
        if fault is not None:
            return fault.below(step)
    return None if parts else _formless(value, value)


def _formless(value: object, culprit: object) -> Fault | None:
    try:
        write_json(value)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        return Fault(kind_of(culprit), "has no JSON form")
    return None


def _write_other(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    match value:
        case UtcInstant() | Decimal() | UUID():
            return str(value)
        case datetime():
            return _datetime_text(value)
        case date() | time():
            return value.isoformat()
        case timedelta() | bytes() | bytearray() | memoryview():
            return msgspec.to_builtins(value)
        case set() | frozenset():
            return [orjson.Fragment(each) for each in sorted(map(write_json, value))]
        case tuple():
            return list(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {name: getattr(value, name) for name in field_names(value)}
    raise TypeError(f"{kind_of(value)} has no JSON form")


def _datetime_text(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is None:
        raise TypeError("a datetime without a time zone is not an instant")
    if not offset % _MINUTE:
        return value.isoformat()
    # JSON knows offsets of whole minutes only (RFC 3339); zones of long ago had seconds.
    return (value.replace(tzinfo=None) - offset).isoformat() + "+00:00"
