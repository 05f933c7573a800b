"""Every name that leaves this framework as telemetry; `docs/telemetry.md` lists the same, held by a test."""

from enum import StrEnum
from typing import Final

SCOPE: Final = "selfmanaged"
"""The name of the tracer and of the meter."""


class Operation(StrEnum):
    """What was done with a message; also the first word of a span's name."""

    PUBLISH = "publish"
    CONSUME = "consume"


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


class Metric(StrEnum):
    """The instruments of the meter."""

    STORED_MESSAGES = "messaging.stored_messages"
    OLDEST_MESSAGE_AGE = "messaging.oldest_message.age"
    OPERATIONS = "messaging.operations"
    OPERATION_DURATION = "messaging.operation.duration"


class MetricAttribute(StrEnum):
    """The attributes of measurements. A message id is never one."""

    PROVIDER = "provider"
    QUEUE = "queue"
    STATE = "state"
    OPERATION = "operation"
    OUTCOME = "outcome"
    CONSUMER = "consumer"


class SpanAttribute(StrEnum):
    """The attributes of spans, after OpenTelemetry's conventions for messaging spans."""

    SYSTEM = "messaging.system"
    OPERATION_NAME = "messaging.operation.name"
    OPERATION_TYPE = "messaging.operation.type"
    DESTINATION = "messaging.destination.name"
    CONSUMER_GROUP = "messaging.consumer.group.name"
    CONVERSATION_ID = "messaging.message.conversation_id"
    BODY_SIZE = "messaging.message.body.size"
    ERROR_TYPE = "error.type"
    OUTCOME = "selfmanaged.outcome"


CORRELATION_BAGGAGE_KEY: Final = "correlation_id"
"""The baggage entry that is read when no correlation id was set."""

SUCCESSES: Final[frozenset[str]] = frozenset(
    {
        PublishOutcome.PUBLISHED,
        ConsumeOutcome.CONSUMED,
        ConsumeOutcome.DUPLICATE,
        ConsumeOutcome.BUSY,
        ConsumeOutcome.CANCELLED,
    }
)
"""Outcomes that leave a span's status alone; all others make it an error."""
