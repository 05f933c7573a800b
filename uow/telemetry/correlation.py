"""The correlation id: what ties together everything that one request or message set off."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

from opentelemetry import baggage

from uow.telemetry.name import CORRELATION_BAGGAGE_KEY
from uow.telemetry.quiet import quietly
from uow.text import check_correlation_id

_UNSET: Final = ""
_current: Final[ContextVar[str | None]] = ContextVar("selfmanaged.correlation_id", default=_UNSET)


@contextlib.contextmanager
def use_correlation_id(correlation_id: str | None) -> Iterator[None]:
    """Give everything enqueued inside the block this correlation id; None gives none, whatever baggage says.

    At most 200 UTF-16 units and 255 UTF-8 bytes, not blank. Raises TextError.
    """
    token = _current.set(None if correlation_id is None else check_correlation_id(correlation_id))
    try:
        yield
    finally:
        _current.reset(token)


def keep_correlation_id(correlation_id: str | None) -> None:
    """As `use_correlation_id`, for the rest of the running task, which must be this one thing's own."""
    _current.set(None if correlation_id is None else check_correlation_id(correlation_id))


def current_correlation_id() -> str | None:
    """The correlation id in force here: the one set by `use_correlation_id`, else baggage `correlation_id`.

    Raises TextError when baggage holds one that is over the limits.
    """
    current = _current.get()
    if current != _UNSET:
        return current
    value = quietly("baggage", lambda: baggage.get_baggage(CORRELATION_BAGGAGE_KEY))
    return None if value is None else check_correlation_id(value, "baggage correlation_id")
