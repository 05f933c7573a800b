"""Every name that leaves this framework as telemetry; `docs/telemetry.md` lists the same, held by a test."""

from enum import StrEnum
from typing import Final

SCOPE: Final = "selfmanaged"
"""The name of the tracer and of the meter."""


class Operation(StrEnum):
    """What was done with a message or job; also the first word of a span's name."""

    PUBLISH = "publish"
    CONSUME = "consume"
    EXECUTE = "execute"
    RUN = "run"


class PublishOutcome(StrEnum):
    """What became of one attempt to publish a message."""

    PUBLISHED = "published"
    PUBLISH_FAILED = "publish_failed"
    DEAD_LETTER = "dead_letter"
    LEASE_LOST = "lease_lost"


class ConsumeOutcome(StrEnum):
    """What became of one delivery; exactly one is counted for each."""

    CONSUMED = "consumed"
    DUPLICATE = "duplicate"
    BUSY = "busy"
    DEAD_LETTER = "dead_letter"
    CONSUME_FAILED = "consume_failed"
    LEASE_LOST = "lease_lost"
    CANCELLED = "cancelled"


class JobOutcome(StrEnum):
    """What became of one attempt of a job, or of a job that no attempt was made of."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """For good."""
    RETRY_SCHEDULED = "retry_scheduled"
    """Failed; another attempt follows."""
    CANCELLED = "cancelled"
    """Someone had asked for its end."""
    INTERRUPTED = "interrupted"
    """Ended by a stop or from outside; final, or queued again."""
    LEASE_LOST = "lease_lost"
    """It was no longer ours by the time it ended; nothing of the attempt was recorded."""
    RECOVERED = "recovered"
    """The attempt of a dead executor, ended by another one."""
    UNKNOWN_HANDLER = "unknown_handler"
    """Put off, and not charged, since this executor has no such handler."""


class RunOutcome(StrEnum):
    """What became of one attempt at a run of a schedule, as its executor ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SlotOutcome(StrEnum):
    """What became of one slot of a schedule."""

    FIRED = "fired"
    """It became a job."""
    MISSED = "missed"
    """No host fired it in time, and its policy does not make up for it."""
    OVERLAPPED = "overlapped"
    """Left out, since a run before it had not ended."""
    WAITING = "waiting"
    """It waits for the end of a run before it; counted as fired later."""


class Metric(StrEnum):
    """The instruments of the meter."""

    STORED_MESSAGES = "messaging.stored_messages"
    OLDEST_MESSAGE_AGE = "messaging.oldest_message.age"
    OPERATIONS = "messaging.operations"
    OPERATION_DURATION = "messaging.operation.duration"
    STORED_JOBS = "jobs.stored_jobs"
    OLDEST_DUE_AGE = "jobs.oldest_due.age"
    JOB_OPERATIONS = "jobs.operations"
    JOB_OPERATION_DURATION = "jobs.operation.duration"
    SCHEDULE_SLOTS = "schedules.slots"
    SCHEDULE_AUDIT_FAILURES = "schedules.audit_failures"


class MetricAttribute(StrEnum):
    """The attributes of measurements. The id of a message or job, or a scope, is never one."""

    PROVIDER = "provider"
    QUEUE = "queue"
    STATE = "state"
    OPERATION = "operation"
    OUTCOME = "outcome"
    CONSUMER = "consumer"
    HANDLER = "handler"
    SCHEDULE = "schedule"


class SpanAttribute(StrEnum):
    """The attributes of spans, after OpenTelemetry's conventions for messaging spans where these fit."""

    SYSTEM = "messaging.system"
    OPERATION_NAME = "messaging.operation.name"
    OPERATION_TYPE = "messaging.operation.type"
    DESTINATION = "messaging.destination.name"
    CONSUMER_GROUP = "messaging.consumer.group.name"
    CONVERSATION_ID = "messaging.message.conversation_id"
    BODY_SIZE = "messaging.message.body.size"
    ERROR_TYPE = "error.type"
    OUTCOME = "selfmanaged.outcome"
    JOB_HANDLER = "selfmanaged.job.handler"
    JOB_HANDLER_VERSION = "selfmanaged.job.handler_version"
    JOB_ATTEMPT = "selfmanaged.job.attempt"
    SCHEDULE_NAME = "selfmanaged.schedule.name"
    SCHEDULE_RUN = "selfmanaged.schedule.run_id"
    SCHEDULE_CAUSE = "selfmanaged.schedule.cause"


CORRELATION_BAGGAGE_KEY: Final = "correlation_id"
"""The baggage entry that is read when no correlation id was set."""

SUCCESSES: Final[frozenset[str]] = frozenset(
    {
        PublishOutcome.PUBLISHED,
        ConsumeOutcome.CONSUMED,
        ConsumeOutcome.DUPLICATE,
        ConsumeOutcome.BUSY,
        ConsumeOutcome.CANCELLED,
        JobOutcome.SUCCEEDED,
        JobOutcome.CANCELLED,
        JobOutcome.INTERRUPTED,
        JobOutcome.UNKNOWN_HANDLER,
    }
)
"""Outcomes that leave a span's status alone; all others make it an error."""

UNFINISHED_JOB_STATES: Final = ("queued", "running")
"""The states of `jobs.stored_jobs` that are counted by queue; floor 2 gives them their meaning."""
