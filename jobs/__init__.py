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
from jobs.execution.context import JobContext
from jobs.execution.errors import (
    AttemptStoppedError,
    DuplicateJobHandlerError,
    JobArgumentsError,
    JobFailure,
    JobHandlerError,
    JobResultError,
    JobTimeoutError,
)
from jobs.execution.executor import JobExecutor
from jobs.execution.handler import HandlerKind, JobHandler
from jobs.execution.options import ExecutorOptions
from jobs.execution.registry import JobRegistry
from jobs.execution.retry_policy import RetryPolicy
from jobs.execution.stop_reason import StopReason
from jobs.execution.thread_context import ThreadJobContext
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
    "AttemptStoppedError",
    "CancelAnswer",
    "DuplicateJobHandlerError",
    "ExecutionStatus",
    "ExecutorOptions",
    "ExpiredAttempt",
    "Fenced",
    "HandlerKind",
    "JobArgumentsError",
    "JobCancelledError",
    "JobCompletion",
    "JobCompletionParticipant",
    "JobContext",
    "JobCounts",
    "JobCursor",
    "JobExecutor",
    "JobFailure",
    "JobFilter",
    "JobHandler",
    "JobHandlerError",
    "JobIdentityConflictError",
    "JobKey",
    "JobNotFoundError",
    "JobOptionError",
    "JobOptions",
    "JobParticipant",
    "JobRecord",
    "JobRegistry",
    "JobResultError",
    "JobSnapshot",
    "JobState",
    "JobStore",
    "JobSubmission",
    "JobSubmissionError",
    "JobTables",
    "JobTimeoutError",
    "JobVanishedError",
    "Jobs",
    "JobsNotMappedError",
    "ProgressAnswer",
    "PutOff",
    "QueueCounts",
    "Recovered",
    "RetryAnswer",
    "RetryPolicy",
    "Settled",
    "Settlement",
    "SettlementKind",
    "StartReport",
    "StartedJob",
    "StopReason",
    "Submitted",
    "ThreadJobContext",
    "UnfitSessionError",
    "add_job_tables",
    "job_tables",
    "scope_hash",
]
