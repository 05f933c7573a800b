"""The span of an attempt: what leads to it, what it tells, and what it keeps to itself."""

import inspect
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from tests.support.telemetry import Recording, recorded_telemetry
from uow.telemetry import (
    JobOutcome,
    OperationSpan,
    capture_trace,
    current_correlation_id,
    job_span,
    use_correlation_id,
)
from uow.text import TextError

TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
TRACEPARENT = f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01"
SECRET = "s3cr3t-4711"


@pytest.fixture
def recording() -> Iterator[Recording]:
    with recorded_telemetry() as recording:
        yield recording


def attempt(**changed: Any) -> AbstractContextManager[OperationSpan]:
    """The span of the second attempt of a job."""
    values: dict[str, Any] = {
        "handler": "invoices.render",
        "handler_version": 3,
        "queue": "slow",
        "attempt": 2,
        "correlation_id": "request-1",
        "traceparent": TRACEPARENT,
        "tracestate": "vendor=1",
    }
    return job_span(**{**values, **changed})


def test_an_attempt_links_the_span_that_submitted_and_begins_a_trace(recording: Recording) -> None:
    with attempt() as span:
        span.set_outcome(JobOutcome.SUCCEEDED)
    (found,) = recording.spans()
    assert (found.name, found.kind) == ("execute invoices.render", SpanKind.CONSUMER)
    assert found.parent is None
    assert found.context.trace_id != TRACE_ID
    (link,) = found.links
    assert (link.context.trace_id, link.context.span_id) == (TRACE_ID, SPAN_ID)
    assert link.context.trace_state.get("vendor") == "1"
    assert found.status.status_code is StatusCode.UNSET
    assert dict(found.attributes) == {
        "messaging.system": "selfmanaged",
        "messaging.operation.name": "execute",
        "messaging.operation.type": "process",
        "messaging.destination.name": "slow",
        "messaging.message.conversation_id": "request-1",
        "selfmanaged.job.handler": "invoices.render",
        "selfmanaged.job.handler_version": 3,
        "selfmanaged.job.attempt": 2,
        "selfmanaged.outcome": "succeeded",
    }


def test_a_request_leads_through_a_submission_to_an_attempt_and_on(recording: Recording) -> None:
    with (
        trace.get_tracer("application").start_as_current_span("request") as request,
        use_correlation_id("request-1"),
    ):
        captured = capture_trace()
    with attempt(
        correlation_id=captured.correlation_id,
        traceparent=captured.traceparent,
        tracestate=captured.tracestate,
    ):
        follow_up = capture_trace()
    (found,) = recording.spans()
    assert found.links[0].context.span_id == request.get_span_context().span_id
    assert follow_up.correlation_id == "request-1"
    assert follow_up.traceparent is not None
    assert follow_up.traceparent.split("-")[1:3] == [
        f"{found.context.trace_id:032x}",
        f"{found.context.span_id:016x}",
    ]


def test_an_attempt_does_not_belong_to_the_span_that_started_the_executor(recording: Recording) -> None:
    with trace.get_tracer("application").start_as_current_span("startup") as startup:
        with attempt():
            assert trace.get_current_span() is not startup
        assert trace.get_current_span() is startup
    (found,) = recording.spans()
    assert found.parent is None
    assert found.context.trace_id != startup.get_span_context().trace_id


@pytest.mark.parametrize("traceparent", [None, "garbage", f"00-{'0' * 32}-{'0' * 16}-01", "a" * 128])
def test_an_attempt_of_unknown_origin_links_nothing(recording: Recording, traceparent: str | None) -> None:
    with (
        trace.get_tracer("application").start_as_current_span("startup"),
        attempt(traceparent=traceparent, tracestate="=,=,"),
    ):
        pass
    (found,) = recording.spans()
    assert found.links == ()


def test_a_job_without_a_correlation_id_has_none_whatever_is_in_force_outside(recording: Recording) -> None:
    with use_correlation_id("outside"), attempt(correlation_id=None):
        assert current_correlation_id() is None
    (found,) = recording.spans()
    assert "messaging.message.conversation_id" not in found.attributes


def test_the_jobs_correlation_id_is_in_force_without_an_sdk() -> None:
    with use_correlation_id("outside"):
        with attempt() as span:
            span.set_outcome(JobOutcome.FAILED, error_type="ValueError")
            assert current_correlation_id() == "request-1"
            assert not trace.get_current_span().get_span_context().is_valid
        assert current_correlation_id() == "outside"
        with pytest.raises(TextError), attempt(correlation_id=" "):
            pass


@pytest.mark.parametrize("outcome", JobOutcome)
def test_failures_alone_make_the_span_of_an_attempt_an_error(
    recording: Recording, outcome: JobOutcome
) -> None:
    with attempt() as span:
        span.set_outcome(outcome)
    (found,) = recording.spans()
    is_failure = str(outcome) in {"failed", "retry_scheduled", "lease_lost", "recovered"}
    assert (found.status.status_code is StatusCode.ERROR) is is_failure
    assert found.status.description is None
    assert found.attributes["selfmanaged.outcome"] == str(outcome)


def test_a_failure_is_told_by_its_class(recording: Recording) -> None:
    with attempt() as span:
        span.set_outcome(JobOutcome.RETRY_SCHEDULED, error_type="LookupError")
    (found,) = recording.spans()
    assert found.attributes["error.type"] == "LookupError"


def test_an_exception_marks_the_span_of_an_attempt_by_its_class_alone(recording: Recording) -> None:
    with pytest.raises(LookupError), attempt():
        raise LookupError(SECRET)
    (found,) = recording.spans()
    assert found.attributes["error.type"] == "LookupError"
    assert found.status.status_code is StatusCode.ERROR
    assert found.events == ()
    assert SECRET not in found.to_json()


def test_a_cancelled_attempt_is_interrupted_and_no_error(recording: Recording) -> None:
    with pytest.raises(CancelledError), attempt():
        raise CancelledError
    (found,) = recording.spans()
    assert found.attributes["selfmanaged.outcome"] == "interrupted"
    assert found.status.status_code is StatusCode.UNSET


def cancel_after(span: OperationSpan, outcome: JobOutcome) -> None:
    """A cancellation that comes when the outcome is known."""
    span.set_outcome(outcome)
    raise CancelledError


def test_a_cancellation_leaves_an_outcome_that_was_set(recording: Recording) -> None:
    with pytest.raises(CancelledError), attempt() as span:
        cancel_after(span, JobOutcome.CANCELLED)
    (found,) = recording.spans()
    assert found.attributes["selfmanaged.outcome"] == "cancelled"


def test_a_span_of_an_attempt_is_not_given_what_it_must_not_tell() -> None:
    assert set(inspect.signature(job_span).parameters) == {
        "handler",
        "handler_version",
        "queue",
        "attempt",
        "correlation_id",
        "traceparent",
        "tracestate",
    }
