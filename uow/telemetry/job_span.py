"""The span of one attempt of a job, after OpenTelemetry's conventions for messaging spans where they fit."""

import contextlib
from collections.abc import Iterator
from typing import Final

from opentelemetry.trace import INVALID_SPAN
from opentelemetry.util.types import AttributeValue

from uow.telemetry.correlation import use_correlation_id
from uow.telemetry.name import JobOutcome, Operation, SpanAttribute
from uow.telemetry.quiet import quietly
from uow.telemetry.span import NOTHING, OperationSpan, current, is_tracing, start_linked

_SYSTEM: Final = "selfmanaged"


@contextlib.contextmanager
def job_span(
    *,
    handler: str,
    handler_version: int,
    queue: str,
    attempt: int,
    correlation_id: str | None,
    traceparent: str | None,
    tracestate: str | None,
) -> Iterator[OperationSpan]:
    """A CONSUMER span `execute {handler}`, current in the block, linked to the span that submitted the job.

    It begins a trace of its own. The job's correlation id is in force in the block, so that what the handler
    enqueues or submits carries it on.
    attempt: its ordinal, from 1. correlation_id, traceparent, tracestate: as the job was stored with them.
    An exception that leaves the block marks the span with the class of it; a cancellation before the outcome
    was set makes it `interrupted`. Raises TextError for a correlation id over the limits.
    """
    with use_correlation_id(correlation_id):
        if not is_tracing():
            yield NOTHING
            return
        attributes: dict[str, AttributeValue] = {
            SpanAttribute.SYSTEM: _SYSTEM,
            SpanAttribute.OPERATION_NAME: Operation.EXECUTE.value,
            SpanAttribute.OPERATION_TYPE: "process",
            SpanAttribute.DESTINATION: queue,
            SpanAttribute.JOB_HANDLER: handler,
            SpanAttribute.JOB_HANDLER_VERSION: handler_version,
            SpanAttribute.JOB_ATTEMPT: attempt,
        }
        if correlation_id is not None:
            attributes[SpanAttribute.CONVERSATION_ID] = correlation_id
        name = f"{Operation.EXECUTE} {handler}"
        span = quietly("job span", lambda: start_linked(name, attributes, traceparent, tracestate))
        with current(span or INVALID_SPAN, when_cancelled=JobOutcome.INTERRUPTED) as operation:
            yield operation
