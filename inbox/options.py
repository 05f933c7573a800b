"""Options of the inbox, and what one consumer may override."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from inbox.errors import InboxOptionError
from uow.backoff import Backoff

Number = TypeVar("Number", int, float)


def _require(option: str, value: object, holds: Callable[[Any], bool], rule: str) -> None:
    """Raise InboxOptionError unless `value` is a finite number for which `holds` is true."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (number and holds(value)):
        raise InboxOptionError(f"{option} must {rule}, not {value!r}")


def _is_retry_limit(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= 100


def _is_positive(value: float) -> bool:
    return value > 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """What one consumer does otherwise than InboxOptions; None keeps the common value.

    max_retry_attempts: further tries after the first (0 to 100). processing_timeout_seconds: how long one
    attempt may take. concurrency: handlers of this consumer that run at once in one process.
    Raises InboxOptionError.
    """

    max_retry_attempts: int | None = None
    processing_timeout_seconds: float | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        for option, holds, rule in (
            ("max_retry_attempts", _is_retry_limit, "be 0 to 100"),
            ("processing_timeout_seconds", _is_positive, "be positive"),
            ("concurrency", _is_count, "be at least 1"),
        ):
            if getattr(self, option) is not None:
                _require(option, getattr(self, option), holds, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxOptions:
    """How receipts are leased, retried and kept. Raises InboxOptionError.

    lease_seconds: how long an acquired receipt is ours without renewal (at least 1); the time after which
    the work of a killed process comes back.
    max_retry_attempts: further tries after the first (0 to 100), then dead-lettered.
    processing_timeout_seconds: how long one attempt of a handler may take before it is cancelled.
    backoff: delays between attempts.
    processed_retention_seconds: processed receipts older than this are deleted; the same delivery would
    then run again.
    busy_recheck_seconds, busy_wait_limit_seconds: how often and how long a busy delivery is asked again.
    isolate_after: after so many acquisitions in a row without a verdict a receipt is a suspect, run alone.
    With a max_retry_attempts below it, neighbours of a message that kills its process use up their attempts
    together with it.
    prefetch: deliveries taken from the broker at once. concurrency: handlers of one consumer at once
    (at most prefetch).
    """

    lease_seconds: float = 60.0
    max_retry_attempts: int = 10
    processing_timeout_seconds: float = 120.0
    backoff: Backoff = field(default_factory=Backoff)
    processed_retention_seconds: float = 30 * 86_400.0
    busy_recheck_seconds: float = 1.0
    busy_wait_limit_seconds: float = 5.0
    isolate_after: int = 2
    prefetch: int = 64
    concurrency: int = 16

    def __post_init__(self) -> None:
        recheck, prefetch = self.busy_recheck_seconds, self.prefetch
        rules: dict[str, tuple[Callable[[Any], bool], str]] = {
            "lease_seconds": (lambda value: value >= 1, "be at least 1"),
            "max_retry_attempts": (_is_retry_limit, "be 0 to 100"),
            "processing_timeout_seconds": (_is_positive, "be positive"),
            "processed_retention_seconds": (_is_positive, "be positive"),
            "busy_recheck_seconds": (_is_positive, "be positive"),
            "busy_wait_limit_seconds": (
                lambda value: value >= recheck,
                f"be at least busy_recheck_seconds ({recheck})",
            ),
            "isolate_after": (_is_count, "be at least 1"),
            "prefetch": (_is_count, "be at least 1"),
            "concurrency": (
                lambda value: _is_count(value) and value <= prefetch,
                f"be between 1 and prefetch ({prefetch})",
            ),
        }
        for option, (holds, rule) in rules.items():
            _require(option, getattr(self, option), holds, rule)

    def overridden_by(self, options: ConsumerOptions) -> "InboxOptions":
        """These options with what one consumer overrides; raises InboxOptionError when they do not agree."""
        return replace(
            self,
            max_retry_attempts=_first(options.max_retry_attempts, self.max_retry_attempts),
            processing_timeout_seconds=_first(
                options.processing_timeout_seconds, self.processing_timeout_seconds
            ),
            concurrency=_first(options.concurrency, self.concurrency),
        )


def _first(override: Number | None, common: Number) -> Number:
    return common if override is None else override
