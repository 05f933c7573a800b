"""The answers of the store's verbs; none of them is an error."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from jobs.key import AttemptReference, JobKey
from jobs.snapshot import JobSnapshot, StartedJob


class Fenced(StrEnum):
    """Nothing was changed, because what the caller holds is not true any more."""

    FENCED = "fenced"
    """Taken, ended or moved by someone else, or its lease has expired. Stop."""


class ProgressAnswer(StrEnum):
    """What became of a report of progress."""

    RECORDED = "recorded"
    LOWER = "lower"
    """A higher percentage is recorded already; nothing was changed."""
    CANCEL_REQUESTED = "cancel_requested"
    """Someone asked for the end of the job; nothing was changed. Stop and settle."""
    FENCED = "fenced"
    """The attempt is not ours any more; nothing was changed. Stop."""


class Settled(StrEnum):
    """What became of a job whose attempt was to be ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """Someone had asked for its end before; no result is kept."""
    INTERRUPTED = "interrupted"
    QUEUED = "queued"
    """The attempt has ended, and the job waits for another one."""
    FENCED = "fenced"
    """The attempt was not ours any more; nothing was changed."""
    ATTEMPT_MISSING = "attempt_missing"
    """The row of the attempt is gone, so nothing was changed; look at the database."""


class ExecutionStatus(StrEnum):
    """Whether an attempt should go on."""

    ACTIVE = "active"
    CANCEL_REQUESTED = "cancel_requested"
    """Stop, and settle: the job becomes cancelled."""
    ENDED = "ended"
    """The attempt is not ours any more. Stop; nothing can be written."""


class CancelAnswer(StrEnum):
    """What a cancellation did."""

    CANCELLED = "cancelled"
    """It was queued and is cancelled; this used up no attempt."""
    REQUESTED = "requested"
    """It is running and marked: however its attempt ends from now on, it becomes cancelled."""
    FINAL = "final"
    """It had ended before; nothing was changed."""
    NOT_FOUND = "not_found"
    """This scope has no such job."""


class RetryAnswer(StrEnum):
    """What a retry did."""

    QUEUED = "queued"
    """It waits for another attempt."""
    INVALID_STATE = "invalid_state"
    """It is not failed, cancelled or interrupted; perhaps someone retried it first."""
    NO_ATTEMPTS_LEFT = "no_attempts_left"
    """All its attempts are used up; submit it under another id."""
    NOT_FOUND = "not_found"
    """This scope has no such job."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored job; `created` says whether this call has stored it."""

    snapshot: JobSnapshot
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOff:
    """A due job left queued for later, because the caller does not know its handler."""

    key: JobKey
    handler: str
    handler_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """What a claim started, the highest priority and then the longest due first, and what it put off.

    Claim again until nothing is looked at: a claim may take fewer than its limit while more are due.
    """

    started: tuple[StartedJob, ...] = ()
    put_off: tuple[PutOff, ...] = ()

    @property
    def looked_at(self) -> int:
        """How many due jobs it met."""
        return len(self.started) + len(self.put_off)

    @property
    def unknown(self) -> Mapping[tuple[str, int], int]:
        """How many of each handler and version were put off."""
        return Counter((job.handler, job.handler_version) for job in self.put_off)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredAttempt:
    """A running attempt whose lease has expired."""

    reference: AttemptReference
    handler: str
    handler_version: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """An expired attempt and what became of its job."""

    attempt: ExpiredAttempt
    settled: Settled


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Unfinished jobs of one queue.

    queued: with those that are not due yet. oldest_due_age_seconds: how long the longest due job waits;
    None when none is due.
    """

    queue: str
    queued: int
    running: int
    oldest_due_age_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """Unfinished jobs by queue, and those that ended without success; succeeded ones are not counted."""

    queues: tuple[QueueCounts, ...]
    failed: int
    cancelled: int
    interrupted: int
