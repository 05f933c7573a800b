"""The fields of a schedule that a deployment may override, and how their values are read."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar

from jobs.schedule.declaring.duration import read_duration
from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy

_SWITCHES: Final = {"true": True, "1": True, "false": False, "0": False}
_Policy = TypeVar("_Policy", bound=StrEnum)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    raise ValueError("must be text")


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _SWITCHES:
        return _SWITCHES[value.strip().lower()]
    raise ValueError("must be true or false")


def _policy(kind: type[_Policy]) -> Callable[[object], _Policy]:
    def read(value: object) -> _Policy:
        if isinstance(value, str) and value.strip().lower() in list(kind):
            return kind(value.strip().lower())
        raise ValueError(f"must be one of {', '.join(kind)}")

    return read


READERS: Final[dict[str, Callable[[object], Any]]] = {
    "enabled": _switch,
    "cron": _text,
    "interval": read_duration,
    "time_zone": _text,
    "misfire": _policy(MisfirePolicy),
    "overlap": _policy(OverlapPolicy),
    "jitter": read_duration,
}
"""By field: from a value or its text to the value. Each raises ValueError with the rule that was broken."""
