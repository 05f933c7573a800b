"""Telemetry changes no result: without an SDK nothing is configured, and a broken SDK is only logged."""

import logging
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from tests.support.telemetry import telemetry_of
from uow.message import Message
from uow.telemetry import (
    JobOutcome,
    OperationSpan,
    StoredJobs,
    StoredMessages,
    capture_trace,
    consume_span,
    job_span,
    publish_span,
    quiet,
    record_job,
    record_operation,
)
from uow.ticks import UtcInstant

MESSAGE = Message(
    id=uuid4(), contract_name="orders.placed", contract_version=1, occurred_at=UtcInstant.now(), payload="{}"
)


class Broken:
    """Raises at every use of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"broken {name}")


class BrokenSpan(Broken):
    """A span that is handed out and then raises."""


class BrokenTracer:
    def start_span(self, *_arguments: Any, **_options: Any) -> Any:
        return BrokenSpan()


class HalfBrokenProvider:
    """Gives tracers whose spans are broken."""

    def get_tracer(self, *_arguments: Any, **_options: Any) -> Any:
        return BrokenTracer()


class BrokenExporter(SpanExporter):
    """An exporter that fails."""

    def export(self, spans: Any) -> Any:
        raise ConnectionError("collector is away")


class BrokenInstruments(MeterProvider):
    """Gives meters whose instruments raise."""

    def get_meter(self, *_arguments: Any, **_options: Any) -> Any:
        class Meter:
            def create_counter(self, *_arguments: Any, **_options: Any) -> Any:
                return Broken()

            create_histogram = create_observable_gauge = create_counter

        return Meter()


def attempt() -> AbstractContextManager[OperationSpan]:
    """The span of an attempt of a job."""
    return job_span(
        handler="render",
        handler_version=1,
        queue="slow",
        attempt=1,
        correlation_id=None,
        traceparent=None,
        tracestate=None,
    )


def failing_exporter() -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(BrokenExporter()))
    return provider


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "_seen", set())


@pytest.mark.parametrize(
    "tracer_provider", [Broken(), HalfBrokenProvider(), failing_exporter()], ids=["all", "spans", "exporter"]
)
@pytest.mark.parametrize("meter_provider", [Broken(), BrokenInstruments()], ids=["all", "instruments"])
def test_a_broken_sdk_changes_no_result(
    tracer_provider: Any, meter_provider: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ran = []
    with telemetry_of(tracer_provider, meter_provider):
        with publish_span(MESSAGE, "redis") as span:
            span.set_outcome("published")
            ran.append("published")
        with consume_span(MESSAGE, "billing", "redis") as span:
            span.set_outcome("consumed", error_type="none")
            ran.append(capture_trace() is not None)
        with pytest.raises(KeyError), consume_span(MESSAGE, "billing", "redis"):
            raise KeyError("the handler's own")
        record_operation(operation="publish", outcome="published", seconds=1, provider="redis")
        StoredMessages("redis").report({("outbox", "pending"): 1}, {})
        with attempt() as span:
            span.set_outcome(JobOutcome.SUCCEEDED)
            ran.append("executed")
        with pytest.raises(KeyError), attempt():
            raise KeyError("the handler's own")
        record_job(handler="render", queue="slow", outcome=JobOutcome.SUCCEEDED, seconds=1)
        StoredJobs(["slow"]).report({("slow", "queued"): 1}, {})
    assert ran == ["published", True, "executed"]
    assert any(record.levelno >= logging.WARNING for record in caplog.records)


def test_the_first_failure_of_a_kind_warns_and_later_ones_do_not(caplog: pytest.LogCaptureFixture) -> None:
    with telemetry_of(None, Broken()), caplog.at_level(logging.INFO, logger="selfmanaged.telemetry"):
        for _ in range(3):
            record_operation(operation="publish", outcome="published", seconds=1, provider="redis")
    assert [record.getMessage() for record in caplog.records] == [
        "telemetry failed and was left out (operation metrics: RuntimeError)"
    ]


def test_measuring_recovers_when_the_meter_does() -> None:
    from tests.support.telemetry import recorded_telemetry

    with telemetry_of(None, Broken()):
        record_operation(operation="publish", outcome="published", seconds=1, provider="redis")
    with recorded_telemetry() as recording:
        record_operation(operation="publish", outcome="published", seconds=1, provider="redis")
        record_job(handler="render", queue="slow", outcome=JobOutcome.SUCCEEDED, seconds=1)
        assert len(recording.points()) == 4


def test_without_an_sdk_nothing_is_configured() -> None:
    program = """
import logging, sys, uuid
from uow.message import Message
from uow.telemetry import *
from uow.ticks import UtcInstant
message = Message(
    id=uuid.uuid4(), contract_name="a", contract_version=1, occurred_at=UtcInstant.now(), payload="{}"
)
with publish_span(message, "local") as span:
    span.set_outcome("published")
with consume_span(message, "billing", "local") as span:
    span.set_outcome("consumed")
record_operation(operation="publish", outcome="published", seconds=1, provider="local")
StoredMessages("local").report({("outbox", "pending"): 1}, {"outbox": 1.0})
with job_span(
    handler="a", handler_version=1, queue="q", attempt=1,
    correlation_id=None, traceparent=None, tracestate=None,
) as span:
    span.set_outcome(JobOutcome.FAILED)
record_job(handler="a", queue="q", outcome=JobOutcome.FAILED, seconds=1)
StoredJobs().report({("q", "queued"): 1}, {"q": 1.0})
print(capture_trace())
from opentelemetry import metrics, trace
print(type(trace.get_tracer_provider()).__name__, type(metrics.get_meter_provider()).__name__)
print([name for name in sys.modules if name.startswith("opentelemetry.sdk")], logging.getLogger().handlers)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "TraceContext(correlation_id=None, traceparent=None, tracestate=None)",
        "ProxyTracerProvider _ProxyMeterProvider",
        "[] []",
    ]
