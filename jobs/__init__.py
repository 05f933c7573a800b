"""Jobs: operations that someone wants done, their attempts and the tokens that fence them."""

from jobs.answer import (
    CancelAnswer,
    ExecutionStatus,
    ExpiredAttempt,
    Fenced,
    JobCounts,
    ProgressAnswer,
    PutOff,
    QueueCounts,
    Recovered,
    RetryAnswer,
    Settled,
    StartReport,
    Submitted,
)
from jobs.client import Jobs
from jobs.completion import JobCompletion, JobCompletionParticipant
from jobs.errors import (
    AttemptFencedError,
    AttemptMissingError,
    JobCancelledError,
    JobIdentityConflictError,
    JobNotFoundError,
    JobOptionError,
    JobSubmissionError,
    JobVanishedError,
    UnfitSessionError,
)
from jobs.key import AttemptReference, JobKey
from jobs.listing import JobCursor, JobFilter
from jobs.options import JobOptions
from jobs.participant import JobParticipant
from jobs.scope import scope_hash
from jobs.settlement import Settlement, SettlementKind
from jobs.snapshot import AttemptRecord, JobRecord, JobSnapshot, StartedJob
from jobs.state import AttemptState, JobState
from jobs.store import JobStore
from jobs.submission import JobSubmission
from jobs.table import JobsNotMappedError, JobTables, add_job_tables, job_tables

__all__ = [
    "AttemptFencedError",
    "AttemptMissingError",
    "AttemptRecord",
    "AttemptReference",
    "AttemptState",
    "CancelAnswer",
    "ExecutionStatus",
    "ExpiredAttempt",
    "Fenced",
    "JobCancelledError",
    "JobCompletion",
    "JobCompletionParticipant",
    "JobCounts",
    "JobCursor",
    "JobFilter",
    "JobIdentityConflictError",
    "JobKey",
    "JobNotFoundError",
    "JobOptionError",
    "JobOptions",
    "JobParticipant",
    "JobRecord",
    "JobSnapshot",
    "JobState",
    "JobStore",
    "JobSubmission",
    "JobSubmissionError",
    "JobTables",
    "JobVanishedError",
    "Jobs",
    "JobsNotMappedError",
    "ProgressAnswer",
    "PutOff",
    "QueueCounts",
    "Recovered",
    "RetryAnswer",
    "Settled",
    "Settlement",
    "SettlementKind",
    "StartReport",
    "StartedJob",
    "Submitted",
    "UnfitSessionError",
    "add_job_tables",
    "job_tables",
    "scope_hash",
]
