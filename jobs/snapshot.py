"""Jobs and attempts as they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import Column, ColumnElement, FromClause, RowMapping

from jobs.key import AttemptReference, JobKey
from jobs.state import AttemptState, JobState
from jobs.table import JobTables
from uow.ticks import UtcInstant


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as it stands, without its arguments.

    initial_not_before: the earliest moment the submission asked for. next_run: the schedule in force.
    attempt_count: attempts begun; attempts_left: how many may still begin. owner, lease_expires, heartbeat:
    of the executor that runs it. cancel_requested: someone asked for its end while it ran.
    progress: of the last attempt, in percent. error_code, error_detail: why the last attempt ended without
    success. completed: when it became final.
    """

    key: JobKey
    handler: str
    handler_version: int
    queue: str
    priority: int
    max_attempts: int
    initial_not_before: UtcInstant | None
    next_run: UtcInstant
    created: UtcInstant
    state: JobState
    attempt_count: int = 0
    attempts_left: int
    cancel_requested: bool = False
    progress_percent: int | None = None
    progress_message: str | None = None
    result_reference: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    owner: str | None = None
    lease_expires: UtcInstant | None = None
    heartbeat: UtcInstant | None = None
    completed: UtcInstant | None = None
    correlation_id: str | None = None

    @property
    def job_id(self) -> str:
        """Its id within its scope."""
        return self.key.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot(JobRecord):
    """A job as it stands, with its arguments as JSON text."""

    arguments: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One execution of a job. ended: None while it runs."""

    ordinal: int
    token: UUID
    state: AttemptState
    owner: str
    started: UtcInstant
    ended: UtcInstant | None
    progress_percent: int | None
    progress_message: str | None
    result_reference: str | None
    error_code: str | None
    error_detail: str | None

    @classmethod
    def of_row(cls, row: RowMapping) -> Self:
        """The attempt of a row of its table."""
        return cls(
            ordinal=row["ordinal"],
            token=row["token"],
            state=AttemptState(row["state"]),
            owner=row["owner"],
            started=row["started_ticks"],
            ended=row["ended_ticks"],
            progress_percent=row["progress_percent"],
            progress_message=row["progress_message"],
            result_reference=row["result_reference"],
            error_code=row["error_code"],
            error_detail=row["error_detail"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedJob:
    """A job that is ours to run until its lease expires.

    attempts_left: how many may begin after this one. traceparent, tracestate: of its submission.
    """

    reference: AttemptReference
    handler: str
    handler_version: int
    queue: str
    priority: int
    arguments: str = field(repr=False)
    attempts_left: int
    created: UtcInstant
    correlation_id: str | None
    traceparent: str | None
    tracestate: str | None

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """The started job of the values of `started_columns`, and its token."""
        (
            scope_hash,
            job_id,
            handler,
            handler_version,
            queue,
            priority,
            arguments,
            attempt_count,
            forgiven_count,
            max_attempts,
            created,
            _,
            correlation_id,
            traceparent,
            tracestate,
            token,
        ) = row
        return cls(
            reference=AttemptReference(scope_hash, job_id, attempt_count, token),
            handler=handler,
            handler_version=handler_version,
            queue=queue,
            priority=priority,
            arguments=arguments,
            attempts_left=max_attempts - (attempt_count - forgiven_count),
            created=created,
            correlation_id=correlation_id,
            traceparent=traceparent,
            tracestate=tracestate,
        )


_SAME: Final = (
    "handler",
    "handler_version",
    "queue",
    "priority",
    "max_attempts",
    "attempt_count",
    "progress_percent",
    "progress_message",
    "result_reference",
    "error_code",
    "error_detail",
    "owner",
    "correlation_id",
)
_INSTANTS: Final = ("initial_not_before", "next_run", "created", "lease_expires", "heartbeat", "completed")
_STARTED: Final = (
    "scope_hash",
    "job_id",
    "handler",
    "handler_version",
    "queue",
    "priority",
    "arguments",
    "attempt_count",
    "forgiven_count",
    "max_attempts",
    "created_ticks",
    "next_run_ticks",
    "correlation_id",
    "traceparent",
    "tracestate",
)


def record_columns(tables: JobTables) -> list[Column[Any]]:
    """What `record_of` reads."""
    names = ("scope_hash", "job_id", "state", "forgiven_count", "cancel_requested", *_SAME)
    return [*(tables.job.c[name] for name in names), *(tables.job.c[f"{name}_ticks"] for name in _INSTANTS)]


def snapshot_columns(tables: JobTables) -> list[Column[Any]]:
    """What `snapshot_of` reads."""
    return [*record_columns(tables), tables.job.c.arguments]


def started_columns(job: FromClause) -> list[ColumnElement[Any]]:
    """What a started job is made of, besides its token, and its schedule, by which a claim orders them.

    They come under these names in this order; `StartedJob.of_row` and `claim_order` know the places.
    """
    return [job.c[name] for name in _STARTED]


def claim_order(row: Sequence[Any]) -> tuple[int, int]:
    """The place of a row of `started_columns` in its claim."""
    return -row[_STARTED.index("priority")], row[_STARTED.index("next_run_ticks")].ticks


def record_of(row: RowMapping) -> JobRecord:
    """The job of a row that holds `record_columns`."""
    return JobRecord(**_record_values(row))


def snapshot_of(row: RowMapping) -> JobSnapshot:
    """The job of a row that holds `snapshot_columns`."""
    return JobSnapshot(**_record_values(row), arguments=row["arguments"])


def _record_values(row: RowMapping) -> dict[str, Any]:
    return {
        "key": JobKey(row["scope_hash"], row["job_id"]),
        "state": JobState(row["state"]),
        "cancel_requested": bool(row["cancel_requested"]),
        "attempts_left": _attempts_left(row),
        **{name: row[name] for name in _SAME},
        **{name: row[f"{name}_ticks"] for name in _INSTANTS},
    }


def _attempts_left(row: RowMapping) -> int:
    return int(row["max_attempts"] - (row["attempt_count"] - row["forgiven_count"]))
