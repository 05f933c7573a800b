"""The states of a job and of an attempt, and the moves between them."""

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class AttemptState(StrEnum):
    """Where one execution of a job stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


TRANSITIONS: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.QUEUED: frozenset({JobState.QUEUED, JobState.RUNNING, JobState.CANCELLED}),
    JobState.RUNNING: frozenset(
        {
            JobState.QUEUED,
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.INTERRUPTED,
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.CANCELLED: frozenset({JobState.QUEUED}),
    JobState.INTERRUPTED: frozenset({JobState.QUEUED}),
}
"""Allowed moves. QUEUED -> QUEUED puts off a job whose handler an executor does not know. RUNNING -> QUEUED
ends the attempt and asks for another one in the same transaction; the other ways to QUEUED are `retry`."""

ATTEMPT_TRANSITIONS: Final[dict[AttemptState, frozenset[AttemptState]]] = {
    AttemptState.RUNNING: frozenset(
        {
            AttemptState.SUCCEEDED,
            AttemptState.FAILED,
            AttemptState.CANCELLED,
            AttemptState.INTERRUPTED,
        }
    ),
    AttemptState.SUCCEEDED: frozenset(),
    AttemptState.FAILED: frozenset(),
    AttemptState.CANCELLED: frozenset(),
    AttemptState.INTERRUPTED: frozenset(),
}
"""An attempt ends once; a retry is another attempt of the same job."""

FINAL: Final = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.INTERRUPTED)
"""Nobody works on these; retention may delete them."""

RETRYABLE: Final = (JobState.FAILED, JobState.CANCELLED, JobState.INTERRUPTED)
"""`retry` may queue these again."""
