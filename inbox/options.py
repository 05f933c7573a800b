"""Options of the inbox, and what one consumer may override."""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from inbox.errors import InboxOptionError
from uow.backoff import Backoff

Number = TypeVar("Number", int, float)


def _require(holds: bool, option: str, value: object, rule: str) -> None:
    if not holds:
        raise InboxOptionError(f"{option} must {rule}, not {value!r}")


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
        retries, timeout, concurrency = (
            self.max_retry_attempts,
            self.processing_timeout_seconds,
            self.concurrency,
        )
        _require(retries is None or 0 <= retries <= 100, "max_retry_attempts", retries, "be 0 to 100")
        _require(timeout is None or timeout > 0, "processing_timeout_seconds", timeout, "be positive")
        _require(concurrency is None or concurrency >= 1, "concurrency", concurrency, "be at least 1")


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
        _require(self.lease_seconds >= 1, "lease_seconds", self.lease_seconds, "be at least 1")
        _require(
            0 <= self.max_retry_attempts <= 100, "max_retry_attempts", self.max_retry_attempts, "be 0 to 100"
        )
        for option in ("processing_timeout_seconds", "processed_retention_seconds", "busy_recheck_seconds"):
            _require(getattr(self, option) > 0, option, getattr(self, option), "be positive")
        _require(
            self.busy_wait_limit_seconds >= self.busy_recheck_seconds,
            "busy_wait_limit_seconds",
            self.busy_wait_limit_seconds,
            f"be at least busy_recheck_seconds ({self.busy_recheck_seconds})",
        )
        _require(self.isolate_after >= 1, "isolate_after", self.isolate_after, "be at least 1")
        _require(self.prefetch >= 1, "prefetch", self.prefetch, "be at least 1")
        _require(
            1 <= self.concurrency <= self.prefetch,
            "concurrency",
            self.concurrency,
            f"be between 1 and prefetch ({self.prefetch})",
        )

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
