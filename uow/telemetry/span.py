"""What the spans of all operations share: an outcome, an end, and nothing at all without an SDK."""

import contextlib
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
)
from opentelemetry.util.types import AttributeValue

from uow.telemetry.name import SCOPE, SUCCESSES, SpanAttribute
from uow.telemetry.quiet import quietly
from uow.telemetry.trace import remote_span_context


class OperationSpan:
    """The span of one operation on one message or job. Without an SDK it does nothing.

    has_outcome: whether one was set.
    """

    __slots__ = ("_span", "has_outcome")

    def __init__(self, span: Span | None = None) -> None:
        self._span = span
        self.has_outcome = False

    def set_outcome(self, outcome: str, *, error_type: str | None = None) -> None:
        """Note how it ended; failures make the span an error.

        outcome: one of PublishOutcome, ConsumeOutcome or JobOutcome. error_type: an error code or the name
        of an exception class, never its message, which may repeat the payload.
        """
        if (span := self._span) is not None:
            self.has_outcome = True
            quietly("span outcome", lambda: _set_outcome(span, str(outcome), error_type))


NOTHING: Final = OperationSpan()
"""For a process without an SDK."""


def start_linked(
    name: str, attributes: Mapping[str, AttributeValue], traceparent: str | None, tracestate: str | None
) -> Span:
    """A CONSUMER span that begins a trace of its own and links to the span that the last two name, if any."""
    origin = remote_span_context(traceparent, tracestate)
    return trace.get_tracer(SCOPE).start_span(
        name,
        # A task inherits the span that was current where it was made; that is no parent of this operation.
        context=Context(),
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        links=[] if origin is None else [Link(origin)],
    )


@contextlib.contextmanager
def current(span: Span, *, when_cancelled: str) -> Iterator[OperationSpan]:
    """`span` as the current one in the block; see `ending`."""
    in_force = trace.use_span(span, record_exception=False, set_status_on_exception=False)
    with in_force, ending(span, when_cancelled=when_cancelled) as operation:
        yield operation


@contextlib.contextmanager
def ending(span: Span, *, when_cancelled: str) -> Iterator[OperationSpan]:
    """`span` until the end of the block, which an exception marks with its class.

    when_cancelled: the outcome when the block is cancelled before it has set one.
    """
    operation = OperationSpan(span)
    try:
        yield operation
    except CancelledError:
        if not operation.has_outcome:
            operation.set_outcome(when_cancelled)
        raise
    except BaseException as error:
        kind = type(error).__qualname__
        quietly("span error", lambda: span.set_attribute(SpanAttribute.ERROR_TYPE, kind))
        quietly("span error", lambda: span.set_status(Status(StatusCode.ERROR)))
        raise
    finally:
        quietly("span end", lambda: span.end())  # noqa: PLW0108 - the look-up may fail, too


def is_tracing() -> bool:
    """Whether the host has an SDK for traces."""
    return not isinstance(
        quietly("tracer provider", trace.get_tracer_provider), ProxyTracerProvider | type(None)
    )


def _set_outcome(span: Span, outcome: str, error_type: str | None) -> None:
    span.set_attribute(SpanAttribute.OUTCOME, outcome)
    if error_type is not None:
        span.set_attribute(SpanAttribute.ERROR_TYPE, error_type)
    if outcome not in SUCCESSES:
        span.set_status(Status(StatusCode.ERROR))
