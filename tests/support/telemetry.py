"""An OpenTelemetry SDK that keeps what it gets in memory, in force for one test."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from uow.telemetry import metric

_DELTA = {Counter: AggregationTemporality.DELTA, Histogram: AggregationTemporality.DELTA}


@dataclass(frozen=True)
class Point:
    """One data point of a metric; the value of a histogram is how many measurements it holds."""

    metric: str
    unit: str
    attributes: dict[str, Any]
    value: Any


class Recording:
    """What the framework recorded while this was in force."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader(_DELTA)
        self.meter_provider = MeterProvider([self._reader])

    def spans(self) -> list[ReadableSpan]:
        """The finished spans of the framework, in the order in which they ended."""
        finished = self._exporter.get_finished_spans()
        return [span for span in finished if span.instrumentation_scope.name == "selfmanaged"]

    def points(self) -> list[Point]:
        """The data points of the framework's metrics since the last call."""
        data = self._reader.get_metrics_data()
        return [
            Point(metric.name, metric.unit or "", dict(point.attributes), _value(point))
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            if scope.scope.name == "selfmanaged"
            for metric in scope.metrics
            for point in metric.data.data_points
        ]


@contextlib.contextmanager
def recorded_telemetry() -> Iterator[Recording]:
    """A recording in force; afterwards the process is without an SDK again.

    The API lets its providers be set only once in a process, and a test must leave none behind.
    """
    recording = Recording()
    with telemetry_of(recording.tracer_provider, recording.meter_provider):
        yield recording


@contextlib.contextmanager
def telemetry_of(tracer_provider: Any, meter_provider: Any) -> Iterator[None]:
    """These providers in force."""
    with (
        patch("opentelemetry.trace._TRACER_PROVIDER", tracer_provider),
        patch("opentelemetry.metrics._internal._METER_PROVIDER", meter_provider),
        patch.object(metric, "_instruments", []),
    ):
        yield


def _value(point: Any) -> Any:
    return point.count if hasattr(point, "count") else point.value
