"""Spans of publishing and consuming, after OpenTelemetry's conventions for messaging spans."""

import contextlib
from collections.abc import Iterator
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind
from opentelemetry.util.types import AttributeValue

from uow.message import Message
from uow.telemetry.correlation import use_correlation_id
from uow.telemetry.name import SCOPE, ConsumeOutcome, Operation, SpanAttribute
from uow.telemetry.quiet import quietly
from uow.telemetry.span import NOTHING, OperationSpan, current, ending, is_tracing, start_linked
from uow.telemetry.trace import remote_context

_TYPES: Final = {Operation.PUBLISH: "send", Operation.CONSUME: "process"}


@contextlib.contextmanager
def publish_span(message: Message, provider: str) -> Iterator[OperationSpan]:
    """A PRODUCER span `publish {routing key}`, child of the span that enqueued `message`.

    It is not made the current span, so that any number may be open at once for a batch in flight.
    provider: the broker, as OpenTelemetry names messaging systems (`rabbitmq`, `redis`, `local`).
    An exception that leaves the block marks the span with the class of it.
    """
    if not is_tracing():
        yield NOTHING
        return
    span = quietly("publish span", lambda: _start_publish(message, provider)) or INVALID_SPAN
    with ending(span, when_cancelled=ConsumeOutcome.CANCELLED) as operation:
        yield operation


@contextlib.contextmanager
def consume_span(message: Message, consumer: str, provider: str) -> Iterator[OperationSpan]:
    """A CONSUMER span `consume {routing key}`, current in the block, linked to the span that enqueued.

    It begins a trace of its own.
    The message's correlation id is in force in the block, so follow-up events carry it on.
    An exception that leaves the block marks the span with the class of it.
    """
    with use_correlation_id(message.correlation_id):
        if not is_tracing():
            yield NOTHING
            return
        span = quietly("consume span", lambda: _start_consume(message, consumer, provider)) or INVALID_SPAN
        with current(span, when_cancelled=ConsumeOutcome.CANCELLED) as operation:
            yield operation


def _start_publish(message: Message, provider: str) -> Span:
    return trace.get_tracer(SCOPE).start_span(
        f"{Operation.PUBLISH} {message.routing_key}",
        context=remote_context(message.traceparent, message.tracestate),
        kind=SpanKind.PRODUCER,
        attributes=_attributes(message, Operation.PUBLISH, provider),
    )


def _start_consume(message: Message, consumer: str, provider: str) -> Span:
    return start_linked(
        f"{Operation.CONSUME} {message.routing_key}",
        {**_attributes(message, Operation.CONSUME, provider), SpanAttribute.CONSUMER_GROUP: consumer},
        message.traceparent,
        message.tracestate,
    )


def _attributes(message: Message, operation: Operation, provider: str) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        SpanAttribute.SYSTEM: provider,
        SpanAttribute.OPERATION_NAME: operation.value,
        SpanAttribute.OPERATION_TYPE: _TYPES[operation],
        SpanAttribute.DESTINATION: message.routing_key,
        SpanAttribute.BODY_SIZE: len(message.payload.encode()),
    }
    if message.correlation_id is not None:
        attributes[SpanAttribute.CONVERSATION_ID] = message.correlation_id
    return attributes
