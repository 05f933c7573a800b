"""Telemetry through the OpenTelemetry API alone: without an SDK everything here does nothing.

The one place that imports opentelemetry. Nothing is configured for the host, and nothing that an SDK or an
exporter raises changes a result.
"""

from uow.telemetry.correlation import current_correlation_id, keep_correlation_id, use_correlation_id
from uow.telemetry.job_metric import StoredJobs, record_job
from uow.telemetry.job_span import job_span
from uow.telemetry.message_metric import StoredMessages, record_operation
from uow.telemetry.message_span import consume_span, publish_span
from uow.telemetry.name import (
    CORRELATION_BAGGAGE_KEY,
    SCOPE,
    ConsumeOutcome,
    JobOutcome,
    Metric,
    MetricAttribute,
    Operation,
    PublishOutcome,
    RunOutcome,
    SlotOutcome,
    SpanAttribute,
)
from uow.telemetry.schedule import record_audit_failure, record_slots, run_span
from uow.telemetry.span import NOTHING, OperationSpan, is_tracing
from uow.telemetry.trace import TraceContext, capture_trace

__all__ = [
    "CORRELATION_BAGGAGE_KEY",
    "NOTHING",
    "SCOPE",
    "ConsumeOutcome",
    "JobOutcome",
    "Metric",
    "MetricAttribute",
    "Operation",
    "OperationSpan",
    "PublishOutcome",
    "RunOutcome",
    "SlotOutcome",
    "SpanAttribute",
    "StoredJobs",
    "StoredMessages",
    "TraceContext",
    "capture_trace",
    "consume_span",
    "current_correlation_id",
    "is_tracing",
    "job_span",
    "keep_correlation_id",
    "publish_span",
    "record_audit_failure",
    "record_job",
    "record_operation",
    "record_slots",
    "run_span",
    "use_correlation_id",
]
