"""Spans of publishing and consuming, after OpenTelemetry's conventions for messaging spans."""

import contextlib
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Link, ProxyTracerProvider, Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from uow.message import Message
from uow.telemetry.correlation import use_correlation_id
from uow.telemetry.name import SCOPE, SUCCESSES, ConsumeOutcome, Operation, SpanAttribute
from uow.telemetry.quiet import quietly
from uow.telemetry.trace import remote_context, remote_span_context

_TYPES: Final = {Operation.PUBLISH: "send", Operation.CONSUME: "process"}


class OperationSpan:
    """The span of one operation on one message. Without an SDK it does nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Span = INVALID_SPAN) -> None:
        self._span = span

    def set_outcome(self, outcome: str, *, error_type: str | None = None) -> None:
        """Note how it ended; failures make the span an error.

        outcome: one of PublishOutcome or ConsumeOutcome. error_type: an error code or the name of an
        exception class, never its message, which may repeat the payload.
        """
        quietly("span outcome", lambda: self._set_outcome(str(outcome), error_type))

    def _set_outcome(self, outcome: str, error_type: str | None) -> None:
        self._span.set_attribute(SpanAttribute.OUTCOME, outcome)
        if error_type is not None:
            self._span.set_attribute(SpanAttribute.ERROR_TYPE, error_type)
        if outcome not in SUCCESSES:
            self._span.set_status(Status(StatusCode.ERROR))


_NOTHING: Final = OperationSpan()


@contextlib.contextmanager
def publish_span(message: Message, provider: str) -> Iterator[OperationSpan]:
    """A PRODUCER span `publish {routing key}`, child of the span that enqueued `message`.

    It is not made the current span, so that any number may be open at once for a batch in flight.
    provider: the broker, as OpenTelemetry names messaging systems (`rabbitmq`, `redis`, `local`).
    An exception that leaves the block marks the span with the class of it.
    """
    if not _is_tracing():
        yield _NOTHING
        return
    span = quietly("publish span", lambda: _start_publish(message, provider)) or INVALID_SPAN
    with _ending(span) as operation:
        yield operation


@contextlib.contextmanager
def consume_span(message: Message, consumer: str, provider: str) -> Iterator[OperationSpan]:
    """A CONSUMER span `consume {routing key}`, current in the block, linked to the span that enqueued.

    It begins a trace of its own.
    The message's correlation id is in force in the block, so follow-up events carry it on.
    An exception that leaves the block marks the span with the class of it.
    """
    with use_correlation_id(message.correlation_id):
        if not _is_tracing():
            yield _NOTHING
            return
        span = quietly("consume span", lambda: _start_consume(message, consumer, provider)) or INVALID_SPAN
        current = trace.use_span(span, record_exception=False, set_status_on_exception=False)
        with current, _ending(span) as operation:
            yield operation


@contextlib.contextmanager
def _ending(span: Span) -> Iterator[OperationSpan]:
    operation = OperationSpan(span)
    try:
        yield operation
    except CancelledError:
        operation.set_outcome(ConsumeOutcome.CANCELLED)
        raise
    except BaseException as error:
        kind = type(error).__qualname__
        quietly("span error", lambda: span.set_attribute(SpanAttribute.ERROR_TYPE, kind))
        quietly("span error", lambda: span.set_status(Status(StatusCode.ERROR)))
        raise
    finally:
        quietly("span end", lambda: span.end())  # noqa: PLW0108 - the look-up may fail, too


def _is_tracing() -> bool:
    return not isinstance(
        quietly("tracer provider", trace.get_tracer_provider), ProxyTracerProvider | type(None)
    )


def _start_publish(message: Message, provider: str) -> Span:
    return trace.get_tracer(SCOPE).start_span(
        f"{Operation.PUBLISH} {message.routing_key}",
        context=remote_context(message),
        kind=SpanKind.PRODUCER,
        attributes=_attributes(message, Operation.PUBLISH, provider),
    )


def _start_consume(message: Message, consumer: str, provider: str) -> Span:
    origin = remote_span_context(message)
    return trace.get_tracer(SCOPE).start_span(
        f"{Operation.CONSUME} {message.routing_key}",
        # A task inherits the span that was current where it was made; that is no parent of this message.
        context=Context(),
        kind=SpanKind.CONSUMER,
        attributes={
            **_attributes(message, Operation.CONSUME, provider),
            SpanAttribute.CONSUMER_GROUP: consumer,
        },
        links=[] if origin is None else [Link(origin)],
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
