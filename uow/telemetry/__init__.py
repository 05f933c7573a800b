"""Telemetry through the OpenTelemetry API alone: without an SDK everything here does nothing.

The one place that imports opentelemetry. Nothing is configured for the host, and nothing that an SDK or an
exporter raises changes a result.
"""

from uow.telemetry.correlation import current_correlation_id, use_correlation_id
from uow.telemetry.metric import StoredMessages, record_operation
from uow.telemetry.name import (
    CORRELATION_BAGGAGE_KEY,
    SCOPE,
    ConsumeOutcome,
    Metric,
    MetricAttribute,
    Operation,
    PublishOutcome,
    SpanAttribute,
)
from uow.telemetry.span import OperationSpan, consume_span, publish_span
from uow.telemetry.trace import TraceContext, capture_trace

__all__ = [
    "CORRELATION_BAGGAGE_KEY",
    "SCOPE",
    "ConsumeOutcome",
    "Metric",
    "MetricAttribute",
    "Operation",
    "OperationSpan",
    "PublishOutcome",
    "SpanAttribute",
    "StoredMessages",
    "TraceContext",
    "capture_trace",
    "consume_span",
    "current_correlation_id",
    "publish_span",
    "record_operation",
    "use_correlation_id",
]
