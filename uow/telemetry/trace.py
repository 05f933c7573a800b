"""The trace context of a message or job: captured when it is stored, continued when it is worked on."""

from dataclasses import dataclass
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from uow.telemetry.correlation import current_correlation_id
from uow.telemetry.quiet import quietly
from uow.text import (
    TRACESTATE_UNITS,
    check_correlation_id,
    check_traceparent,
    check_tracestate,
    utf16_units,
)

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_LARGE_MEMBER: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """What a message or job carries of the moment it was handed over; each may be None.

    correlation_id: at most 200 UTF-16 units and 255 UTF-8 bytes. traceparent: 128 units.
    tracestate: 512 units. Raises TextError.
    """

    correlation_id: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None

    def __post_init__(self) -> None:
        if self.correlation_id is not None:
            check_correlation_id(self.correlation_id)
        if self.traceparent is not None:
            check_traceparent(self.traceparent)
        if self.tracestate is not None:
            check_tracestate(self.tracestate)


def capture_trace() -> TraceContext:
    """The correlation id, traceparent and tracestate of this moment.

    Raises TextError for a correlation id over the limits. A tracestate over its limit loses members as W3C
    Trace Context says: those over 128 characters first, then from the end.
    """
    carrier: dict[str, str] = {}
    quietly("trace context", lambda: _PROPAGATOR.inject(carrier))
    return TraceContext(
        correlation_id=current_correlation_id(),
        traceparent=carrier.get("traceparent"),
        tracestate=_shortened(carrier.get("tracestate")),
    )


def remote_context(traceparent: str | None, tracestate: str | None) -> Context:
    """An OpenTelemetry context whose span is the one that these name, if they name one."""
    if traceparent is None:
        return Context()
    carrier = {"traceparent": traceparent}
    if tracestate is not None:
        carrier["tracestate"] = tracestate
    return _PROPAGATOR.extract(carrier, Context())


def remote_span_context(traceparent: str | None, tracestate: str | None) -> SpanContext | None:
    """The span context that these name; None when it is unknown or malformed."""
    found = get_current_span(remote_context(traceparent, tracestate)).get_span_context()
    return found if found.is_valid else None


def _shortened(tracestate: str | None) -> str | None:
    if not tracestate or utf16_units(tracestate) <= TRACESTATE_UNITS:
        return tracestate or None
    members = tracestate.split(",")
    for large in sorted(members, key=len, reverse=True):
        if len(large) <= _LARGE_MEMBER or utf16_units(",".join(members)) <= TRACESTATE_UNITS:
            break
        members.remove(large)
    while members and utf16_units(",".join(members)) > TRACESTATE_UNITS:
        members.pop()
    return ",".join(members) or None
