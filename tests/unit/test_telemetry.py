"""Spans, measurements and trace contexts, as OpenTelemetry's conventions and our page of names say."""

import gc
from asyncio import CancelledError
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode

from tests.support.telemetry import Point, Recording, recorded_telemetry
from uow import telemetry
from uow.message import Message
from uow.telemetry import (
    ConsumeOutcome,
    PublishOutcome,
    StoredMessages,
    TraceContext,
    capture_trace,
    consume_span,
    current_correlation_id,
    publish_span,
    record_operation,
    use_correlation_id,
)
from uow.text import TextError
from uow.ticks import UtcInstant

TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
TRACEPARENT = f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01"
SECRET = "s3cr3t-4711"


@pytest.fixture
def message() -> Message:
    return Message(
        id=uuid4(),
        contract_name="orders.placed",
        contract_version=1,
        occurred_at=UtcInstant.now(),
        payload=f'{{"customer":"Zo\xeb {SECRET}"}}',
        correlation_id="request-1",
        traceparent=TRACEPARENT,
        tracestate="vendor=1",
    )


@pytest.fixture
def recording() -> Any:
    with recorded_telemetry() as recording:
        yield recording


def test_a_publish_span_is_a_child_of_the_span_that_enqueued(recording: Recording, message: Message) -> None:
    with publish_span(message, "rabbitmq") as span:
        span.set_outcome(PublishOutcome.PUBLISHED)
    (found,) = recording.spans()
    assert (found.name, found.kind) == ("publish orders.placed.v1", SpanKind.PRODUCER)
    assert (found.context.trace_id, found.parent.span_id) == (TRACE_ID, SPAN_ID)
    assert found.parent.is_remote
    assert found.context.trace_state.get("vendor") == "1"
    assert found.status.status_code is StatusCode.UNSET
    assert dict(found.attributes) == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders.placed.v1",
        "messaging.message.conversation_id": "request-1",
        "messaging.message.body.size": len(message.payload.encode()),
        "selfmanaged.outcome": "published",
    }


def test_a_consume_span_links_the_span_that_enqueued(recording: Recording, message: Message) -> None:
    with consume_span(message, "billing", "rabbitmq") as span:
        span.set_outcome(ConsumeOutcome.CONSUMED)
    (found,) = recording.spans()
    assert (found.name, found.kind) == ("consume orders.placed.v1", SpanKind.CONSUMER)
    assert found.parent is None
    assert [(link.context.trace_id, link.context.span_id) for link in found.links] == [(TRACE_ID, SPAN_ID)]
    assert dict(found.attributes) == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "consume",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders.placed.v1",
        "messaging.consumer.group.name": "billing",
        "messaging.message.conversation_id": "request-1",
        "messaging.message.body.size": len(message.payload.encode()),
        "selfmanaged.outcome": "consumed",
    }


def test_a_consume_span_does_not_belong_to_the_span_that_started_the_consumer(
    recording: Recording, message: Message
) -> None:
    with trace.get_tracer("application").start_as_current_span("startup") as startup:
        with consume_span(message, "billing", "redis"):
            pass
        assert trace.get_current_span() is startup
    (found,) = recording.spans()
    assert found.parent is None
    assert found.context.trace_id != startup.get_span_context().trace_id


def test_a_request_leads_through_publishing_to_consuming_and_on(recording: Recording) -> None:
    tracer = trace.get_tracer("application")
    with tracer.start_as_current_span("request") as request, use_correlation_id("request-1"):
        captured = capture_trace()
    message = message_of(captured)
    with publish_span(message, "redis"):
        pass
    with consume_span(message, "billing", "redis"):
        follow_up = capture_trace()
    published, consumed = recording.spans()
    enqueued = request.get_span_context()
    assert published.parent.span_id == enqueued.span_id
    assert published.context.trace_id == enqueued.trace_id
    assert consumed.links[0].context.span_id == enqueued.span_id
    assert follow_up.correlation_id == "request-1"
    assert follow_up.traceparent.split("-")[1:3] == [
        f"{consumed.context.trace_id:032x}",
        f"{consumed.context.span_id:016x}",
    ]


def message_of(captured: TraceContext) -> Message:
    """A message that carries what was captured."""
    return Message(
        id=uuid4(),
        contract_name="orders.placed",
        contract_version=1,
        occurred_at=UtcInstant.now(),
        payload="{}",
        correlation_id=captured.correlation_id,
        traceparent=captured.traceparent,
        tracestate=captured.tracestate,
    )


@pytest.mark.parametrize(
    "traceparent", [None, "garbage", "00-0-0-00", f"00-{'0' * 32}-{'0' * 16}-01", "a" * 128]
)
def test_an_unknown_or_malformed_trace_context_starts_a_new_trace(
    recording: Recording, message: Message, traceparent: str | None
) -> None:
    odd = replace(message, traceparent=traceparent, tracestate="=,=,")
    with publish_span(odd, "redis"), consume_span(odd, "billing", "redis"):
        pass
    consumed, published = recording.spans()
    assert published.parent is None
    assert consumed.links == ()


def test_spans_of_a_batch_are_open_together_without_being_nested(
    recording: Recording, message: Message
) -> None:
    other = replace(message, id=uuid4(), traceparent=None, tracestate=None)
    with publish_span(message, "redis") as first, publish_span(other, "redis") as second:
        assert not trace.get_current_span().get_span_context().is_valid
        second.set_outcome(PublishOutcome.PUBLISH_FAILED, error_type="nack")
        first.set_outcome(PublishOutcome.PUBLISHED)
    failed, published = recording.spans()
    assert failed.parent is None
    assert published.parent.span_id == SPAN_ID
    assert failed.attributes["error.type"] == "nack"
    assert failed.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("outcome", [*PublishOutcome, *ConsumeOutcome])
def test_failures_alone_make_a_span_an_error(recording: Recording, message: Message, outcome: str) -> None:
    with consume_span(message, "billing", "redis") as span:
        span.set_outcome(outcome)
    (found,) = recording.spans()
    is_failure = str(outcome) in {"publish_failed", "dead_letter", "lease_lost", "consume_failed"}
    assert (found.status.status_code is StatusCode.ERROR) is is_failure
    assert found.status.description is None


@pytest.mark.parametrize("open_span", [publish_span, lambda m, p: consume_span(m, "billing", p)])
def test_an_exception_marks_the_span_by_its_class_alone(
    recording: Recording, message: Message, open_span: Any
) -> None:
    with pytest.raises(LookupError), open_span(message, "redis"):
        raise LookupError(SECRET)
    (found,) = recording.spans()
    assert found.attributes["error.type"] == "LookupError"
    assert found.status.status_code is StatusCode.ERROR
    assert found.events == ()
    assert SECRET not in found.to_json()


def test_a_cancelled_handler_is_no_error(recording: Recording, message: Message) -> None:
    with pytest.raises(CancelledError), consume_span(message, "billing", "redis"):
        raise CancelledError
    (found,) = recording.spans()
    assert found.attributes["selfmanaged.outcome"] == "cancelled"
    assert found.status.status_code is StatusCode.UNSET


def test_no_message_id_and_no_payload_is_in_any_span(recording: Recording, message: Message) -> None:
    with publish_span(message, "redis"), consume_span(message, "billing", "redis"):
        pass
    for span in recording.spans():
        assert str(message.id) not in span.to_json()
        assert message.id.hex not in span.to_json()
        assert SECRET not in span.to_json()


def test_operations_are_counted_and_timed_by_outcome(recording: Recording) -> None:
    record_operation(operation="publish", outcome="published", seconds=0.5, provider="redis", count=3)
    record_operation(
        operation=telemetry.Operation.CONSUME,
        outcome=ConsumeOutcome.BUSY,
        seconds=0.1,
        provider="redis",
        consumer="billing",
    )
    record_operation(operation="publish", outcome="published", seconds=0.5, provider="redis", count=0)
    publish = {"provider": "redis", "operation": "publish", "outcome": "published"}
    consume = {"provider": "redis", "operation": "consume", "outcome": "busy", "consumer": "billing"}
    assert sorted(recording.points(), key=str) == sorted(
        [
            Point("messaging.operations", "{operation}", publish, 3),
            Point("messaging.operations", "{operation}", consume, 1),
            Point("messaging.operation.duration", "s", publish, 3),
            Point("messaging.operation.duration", "s", consume, 1),
        ],
        key=str,
    )


def test_stored_messages_report_the_last_sample_with_zeros(recording: Recording) -> None:
    stored = StoredMessages("redis")
    assert recording.points() == []
    stored.report({("outbox", "pending"): 9}, {"outbox": 7.0})
    stored.report({("outbox", "pending"): 2, ("inbox", "failed"): 0}, {"outbox": 1.5, "inbox": None})
    gauge, age = "messaging.stored_messages", "messaging.oldest_message.age"
    expected = [
        Point(gauge, "{message}", {"provider": "redis", "queue": "outbox", "state": "pending"}, 2),
        Point(gauge, "{message}", {"provider": "redis", "queue": "inbox", "state": "failed"}, 0),
        Point(age, "s", {"provider": "redis", "queue": "outbox"}, 1.5),
        Point(age, "s", {"provider": "redis", "queue": "inbox"}, 0.0),
    ]
    assert recording.points() == expected
    assert recording.points() == expected
    stored.clear()
    assert recording.points() == []


def test_two_samplers_speak_side_by_side_and_a_dropped_one_is_silent(recording: Recording) -> None:
    first, second = StoredMessages("redis"), StoredMessages("rabbitmq")
    first.report({("outbox", "pending"): 1}, {})
    second.report({("outbox", "pending"): 2}, {})
    assert sorted(point.value for point in recording.points()) == [1, 2]
    del second
    gc.collect()
    assert [point.value for point in recording.points()] == [1]


def test_the_correlation_id_is_the_one_set_else_that_of_baggage() -> None:
    assert current_correlation_id() is None
    token = context.attach(baggage.set_baggage("correlation_id", "from-baggage"))
    try:
        assert capture_trace().correlation_id == "from-baggage"
        with use_correlation_id("set"):
            assert capture_trace().correlation_id == "set"
            with use_correlation_id(None):
                assert capture_trace().correlation_id is None
            assert current_correlation_id() == "set"
        assert current_correlation_id() == "from-baggage"
    finally:
        context.detach(token)
    assert current_correlation_id() is None


def test_a_consume_span_puts_the_messages_correlation_id_in_force_without_an_sdk(message: Message) -> None:
    with consume_span(message, "billing", "redis"):
        assert current_correlation_id() == "request-1"
        with consume_span(replace(message, correlation_id=None), "billing", "redis"):
            assert current_correlation_id() is None
    assert current_correlation_id() is None


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("a" * 201, "correlation_id must have at most 200 UTF-16 units, not 201"),
        ("\u20ac" * 86, "correlation_id must have at most 255 UTF-8 bytes, not 258"),
        ("a\x00", "correlation_id must not contain NUL"),
        ("\ud800", "correlation_id must not contain a lone surrogate"),
        ("", "correlation_id must not be blank"),
        (5, "correlation_id must be text, not int"),
    ],
)
def test_a_correlation_id_over_a_limit_is_refused_wherever_it_comes_from(value: Any, rule: str) -> None:
    with pytest.raises(TextError, match=rule), use_correlation_id(value):
        pass
    token = context.attach(baggage.set_baggage("correlation_id", value))
    try:
        with pytest.raises(TextError, match=rule):
            capture_trace()
    finally:
        context.detach(token)


@pytest.mark.parametrize(
    ("field", "longest"), [("correlation_id", 200), ("traceparent", 128), ("tracestate", 512)]
)
def test_a_trace_context_holds_its_limits(field: str, longest: int) -> None:
    assert getattr(TraceContext(**{field: "a" * longest}), field) == "a" * longest
    with pytest.raises(
        TextError, match=f"{field} must have at most {longest} UTF-16 units, not {longest + 1}"
    ):
        TraceContext(**{field: "a" * (longest + 1)})
    with pytest.raises(TextError, match=f"{field} must not contain NUL"):
        TraceContext(**{field: "\x00"})


def tracestate_of(members: list[str]) -> str | None:
    """What is captured while the current span has these members of trace state."""
    state = trace.TraceState([tuple(member.split("=", 1)) for member in members])
    span_context = trace.SpanContext(TRACE_ID, SPAN_ID, is_remote=False, trace_state=state)
    with trace.use_span(trace.NonRecordingSpan(span_context)):
        return capture_trace().tracestate


def test_a_tracestate_at_its_limit_is_kept_whole() -> None:
    members = [f"k{number}={'v' * 124}" for number in range(4)]
    assert len(",".join(members)) == 511
    assert tracestate_of(members) == ",".join(members)


def test_a_tracestate_over_its_limit_loses_large_members_first_then_the_last() -> None:
    small = [f"k{number}={'v' * 90}" for number in range(7)]
    assert tracestate_of([small[0], f"large={'v' * 200}", *small[1:4]]) == ",".join(small[:4])
    assert tracestate_of(small) == ",".join(small[:5])
    assert tracestate_of(["a=b"]) == "a=b"


def test_nothing_is_captured_outside_a_trace() -> None:
    assert capture_trace() == TraceContext()
