"""Telemetry never changes a result: what it raises is logged and goes no further."""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

_Result = TypeVar("_Result")

_logger: Final = logging.getLogger("selfmanaged.telemetry")
_seen: set[str] = set()


def quietly(what: str, action: Callable[[], _Result]) -> _Result | None:
    """What `action` returns, or None when it raised.

    The first failure of each kind is logged as a warning, later ones at debug level, since there may be
    thousands a second.
    """
    try:
        return action()
    except Exception as error:
        kind = f"{what}: {type(error).__qualname__}"
        level = logging.DEBUG if kind in _seen else logging.WARNING
        _seen.add(kind)
        _logger.log(level, "telemetry failed and was left out (%s)", kind, exc_info=level == logging.DEBUG)
        return None
