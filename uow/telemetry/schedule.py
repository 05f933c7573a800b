"""The span of a run of a schedule, and counts of slots and of records that were not written."""

import contextlib
from collections.abc import Iterator
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN
from opentelemetry.util.types import AttributeValue

from uow.telemetry.metric import instruments
from uow.telemetry.name import SCOPE, MetricAttribute, Operation, RunOutcome, SlotOutcome, SpanAttribute
from uow.telemetry.quiet import quietly
from uow.telemetry.span import NOTHING, OperationSpan, current, is_tracing

_SCHEDULE: Final = MetricAttribute.SCHEDULE.value
_OUTCOME: Final = MetricAttribute.OUTCOME.value


@contextlib.contextmanager
def run_span(*, schedule: str, run_id: str, cause: str, attempt: int) -> Iterator[OperationSpan]:
    """An INTERNAL span `run {schedule}`, current in the block, child of the span of the job's attempt.

    run_id: the same for all attempts at one slot. An exception that leaves the block marks the span with the
    class of it; a cancellation makes it `cancelled`.
    """
    if not is_tracing():
        yield NOTHING
        return
    attributes: dict[str, AttributeValue] = {
        SpanAttribute.SCHEDULE_NAME: schedule,
        SpanAttribute.SCHEDULE_RUN: run_id,
        SpanAttribute.SCHEDULE_CAUSE: cause,
        SpanAttribute.JOB_ATTEMPT: attempt,
    }
    name = f"{Operation.RUN} {schedule}"
    span = quietly("run span", lambda: trace.get_tracer(SCOPE).start_span(name, attributes=attributes))
    with current(span or INVALID_SPAN, when_cancelled=RunOutcome.CANCELLED) as operation:
        yield operation


def record_slots(*, schedule: str, outcome: SlotOutcome, count: int = 1) -> None:
    """Count `count` slots of a schedule that ended so. Never raises."""
    if count < 1:
        return
    attributes = {_SCHEDULE: schedule, _OUTCOME: outcome.value}
    quietly("slot metrics", lambda: instruments().slots.add(count, attributes))


def record_audit_failure(*, schedule: str) -> None:
    """Count one record of a run that could not be written. Never raises."""
    quietly("audit metrics", lambda: instruments().audit_failures.add(1, {_SCHEDULE: schedule}))
