"""Durations as deployments write them: `90s`, `15m`, `2h`, `1d`, or a number of seconds."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

_TEXT: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([smhd]?)", re.ASCII)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_RULE: Final = "must be a duration like 90s, 15m, 2h or 1d, or a number of seconds"


def read_duration(value: object) -> timedelta:
    """The duration that a text, a number of seconds or a timedelta stands for, exact to the microsecond.

    Raises ValueError telling the rule, for nothing else and nothing longer than a timedelta is taken.
    """
    if isinstance(value, timedelta):
        return value
    try:
        match value:
            case bool():
                pass
            case int() | float():
                return timedelta(seconds=value)
            case str() if (found := _TEXT.fullmatch(value.strip().lower())) is not None:
                number, unit = found.groups()
                return timedelta(microseconds=int(Decimal(number) * _SECONDS[unit] * 1_000_000))
    except (OverflowError, ValueError):  # too long, or not a finite number
        pass
    raise ValueError(_RULE)
