"""Options of stored jobs."""

import math
from dataclasses import dataclass
from typing import Final, assert_never

from jobs.errors import JobOptionError
from jobs.state import JobState

BATCH_LIMIT: Final = 1000
"""No verb takes or changes more jobs than this at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """How running jobs are leased and final ones kept. Raises JobOptionError naming option, value and rule.

    lease_seconds: how long a started attempt is ours without renewal (at least 1); the time after which
    the work of a killed executor comes back.
    succeeded_retention_seconds and the like: final jobs of that state older than this are deleted by
    `cleanup`; None keeps them for ever.
    """

    lease_seconds: float = 60.0
    succeeded_retention_seconds: float | None = None
    failed_retention_seconds: float | None = None
    cancelled_retention_seconds: float | None = None
    interrupted_retention_seconds: float | None = None

    def __post_init__(self) -> None:
        _seconds("lease_seconds", self.lease_seconds, least=1.0)
        for state in ("succeeded", "failed", "cancelled", "interrupted"):
            option = f"{state}_retention_seconds"
            if getattr(self, option) is not None:
                _seconds(option, getattr(self, option), least=0.0)

    def retention_seconds(self, state: JobState) -> float | None:
        """How long final jobs of `state` are kept; None for ever, as for jobs that are not final."""
        match state:
            case JobState.SUCCEEDED:
                return self.succeeded_retention_seconds
            case JobState.FAILED:
                return self.failed_retention_seconds
            case JobState.CANCELLED:
                return self.cancelled_retention_seconds
            case JobState.INTERRUPTED:
                return self.interrupted_retention_seconds
            case JobState.QUEUED | JobState.RUNNING:
                return None
            case _:
                assert_never(state)


def _seconds(option: str, value: float, *, least: float) -> None:
    if type(value) not in {int, float} or not math.isfinite(value) or value < least:
        raise JobOptionError(f"{option} must be at least {least:g} and finite, not {value!r}")


def checked_limit(limit: int) -> int:
    """`limit` itself when it is 1 to 1000; raises ValueError otherwise."""
    if type(limit) is not int or not 1 <= limit <= BATCH_LIMIT:
        raise ValueError(f"limit must be between 1 and {BATCH_LIMIT}, not {limit!r}")
    return limit
