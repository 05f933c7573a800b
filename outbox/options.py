"""Options of the outbox."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from outbox.errors import OutboxOptionError
from uow.backoff import Backoff

BATCH_LIMIT: Final = 1000
"""No claim takes more rows than this at once."""

_RESTARTS_FORGIVEN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxOptions:
    """How events are leased, retried and kept. Raises OutboxOptionError naming option, value and rule.

    batch_size: rows a claim takes when it is not told otherwise (1 to 1000); a relay takes fewer where
    payloads are large, see RelayOptions.batch_body_bytes.
    lease_seconds: how long claimed rows are ours without renewal (at least 1); the time after which the
    work of a killed relay comes back.
    max_retry_attempts: further tries after the first (0 to 100), then dead-lettered.
    backoff: delays between tries.
    published_retention_seconds: published rows older than this are deleted by `cleanup` (positive).
    isolate_after: a row claimed so often in a row without any verdict is a suspect, claimed alone (1 to 100).
    maximum_body_bytes: the longest payload in UTF-8 bytes, checked when an event is enqueued (at least 1);
    beyond a few MiB, MariaDB's `max_allowed_packet` has to be raised with it.
    """

    batch_size: int = 500
    lease_seconds: float = 60.0
    max_retry_attempts: int = 10
    backoff: Backoff = field(default_factory=Backoff)
    published_retention_seconds: float = 7 * 86_400.0
    isolate_after: int = 3
    maximum_body_bytes: int = 1_048_576

    def __post_init__(self) -> None:
        _whole_number("batch_size", self.batch_size, 1, BATCH_LIMIT)
        _seconds("lease_seconds", self.lease_seconds, "be at least 1", lambda value: value >= 1)
        _whole_number("max_retry_attempts", self.max_retry_attempts, 0, 100)
        retention = self.published_retention_seconds
        _seconds("published_retention_seconds", retention, "be positive", lambda value: value > 0)
        _whole_number("isolate_after", self.isolate_after, 1, 100)
        _whole_number("maximum_body_bytes", self.maximum_body_bytes, 1, None)

    @property
    def bury_after(self) -> int:
        """Claims in a row without any verdict after which a row is dead-lettered as `relay_died`.

        At least ten beyond `isolate_after`, so that a relay restarted ten times buries nothing.
        """
        return self.isolate_after + max(self.max_retry_attempts, _RESTARTS_FORGIVEN)


def _whole_number(option: str, value: int, least: int, most: int | None) -> None:
    rule = f"be a whole number, {least} or more" if most is None else f"be a whole number, {least} to {most}"
    if type(value) is not int or value < least or (most is not None and value > most):
        raise OutboxOptionError(f"{option} must {rule}, not {value!r}")


def _seconds(option: str, value: float, rule: str, holds: Callable[[float], bool]) -> None:
    if type(value) not in {int, float} or not math.isfinite(value) or not holds(value):
        raise OutboxOptionError(f"{option} must {rule}, not {value!r}")
