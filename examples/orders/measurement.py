"""The framework's own counters, written to a file by each process of the demo.

The framework uses the OpenTelemetry API and configures nothing; the application decides where numbers go.
This one has no collector, so each process writes its newest numbers to a JSON file, twice a second and at
its end.
"""

import atexit
import json
import os
from pathlib import Path
from typing import Any

METRICS_VARIABLE = "ORDERS_METRICS"


def write_measurements_to(directory: Path) -> bool:
    """Begin to write this process's numbers; False when the OpenTelemetry SDK is not installed."""
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - only the extra `demo` brings the SDK
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
            MetricExporter,
            MetricExportResult,
            PeriodicExportingMetricReader,
        )
    except ImportError:
        return False

    class JsonFile(MetricExporter):
        def export(self, metrics_data: Any, timeout_millis: float = 10_000, **_: Any) -> Any:
            path = directory / f"{os.getpid()}.json"
            unfinished = path.with_suffix(".new")
            unfinished.write_text(metrics_data.to_json(indent=None), encoding="utf-8")
            unfinished.replace(path)  # so that a kill never leaves half a file
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis: float = 10_000) -> bool:
            return True

        def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
            pass

    directory.mkdir(parents=True, exist_ok=True)
    provider = MeterProvider([PeriodicExportingMetricReader(JsonFile(), export_interval_millis=500)])
    metrics.set_meter_provider(provider)
    atexit.register(provider.shutdown)
    return True


def count_outcomes(directory: Path) -> dict[str, int]:
    """How often each outcome was counted, by all processes together."""
    totals: dict[str, int] = {}
    for path in directory.glob("*.json"):
        for point in _points(json.loads(path.read_text(encoding="utf-8"))):
            outcome = str(point["attributes"].get("outcome", ""))
            totals[outcome] = totals.get(outcome, 0) + int(point["value"])
    return totals


def _points(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        point
        for resource in document["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
        if metric["name"] == "messaging.operations"
        for point in metric["data"]["data_points"]
    ]
