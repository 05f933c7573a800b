"""Attempts are counted and timed by outcome, and stored jobs are shown with zeros for known queues."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.support.telemetry import Point, Recording, recorded_telemetry, telemetry_of
from uow.telemetry import JobOutcome, StoredJobs, StoredMessages, record_job, record_operation


@pytest.fixture
def recording() -> Iterator[Recording]:
    with recorded_telemetry() as recording:
        yield recording


def counted(attributes: dict[str, Any], value: int) -> Point:
    """A point of the counter."""
    return Point("jobs.operations", "{operation}", attributes, value)


def timed(attributes: dict[str, Any], value: int) -> Point:
    """A point of the histogram."""
    return Point("jobs.operation.duration", "s", attributes, value)


def in_order(points: list[Point]) -> list[Point]:
    """Points sorted for comparison."""
    return sorted(points, key=str)


def test_attempts_are_counted_and_timed_by_handler_queue_and_outcome(recording: Recording) -> None:
    record_job(handler="render", queue="slow", outcome=JobOutcome.SUCCEEDED, seconds=0.5, count=3)
    record_job(handler="render", queue="slow", outcome=JobOutcome.FAILED, seconds=0.1)
    record_job(handler="render", queue="fast", outcome=JobOutcome.FAILED, seconds=0.1)
    good = {"handler": "render", "queue": "slow", "outcome": "succeeded"}
    bad = {"handler": "render", "queue": "slow", "outcome": "failed"}
    other = {"handler": "render", "queue": "fast", "outcome": "failed"}
    assert in_order(recording.points()) == in_order(
        [
            *(counted(good, 3), counted(bad, 1), counted(other, 1)),
            *(timed(good, 3), timed(bad, 1), timed(other, 1)),
        ]
    )


def test_no_attempts_are_not_measured(recording: Recording) -> None:
    record_job(handler="render", queue="slow", outcome=JobOutcome.FAILED, seconds=0.1, count=0)
    assert recording.points() == []


def test_what_took_no_time_of_ours_is_counted_alone(
    recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    record_job(handler="render", queue="slow", outcome=JobOutcome.UNKNOWN_HANDLER, seconds=None, count=2)
    attributes = {"handler": "render", "queue": "slow", "outcome": "unknown_handler"}
    assert recording.points() == [counted(attributes, 2)]
    assert caplog.records == []


@pytest.mark.parametrize("queue", [None, ""])
def test_a_queue_that_is_not_known_is_no_attribute(recording: Recording, queue: str | None) -> None:
    record_job(handler="render", queue=queue, outcome=JobOutcome.RECOVERED, seconds=None)
    assert recording.points() == [counted({"handler": "render", "outcome": "recovered"}, 1)]


def test_an_attempt_of_no_time_is_timed(recording: Recording) -> None:
    record_job(handler="render", queue="slow", outcome=JobOutcome.SUCCEEDED, seconds=0.0)
    assert [point.metric for point in recording.points()] == ["jobs.operations", "jobs.operation.duration"]


def test_durations_fall_into_buckets_made_for_seconds() -> None:
    reader = InMemoryMetricReader()
    with telemetry_of(None, MeterProvider([reader])):
        record_job(handler="render", queue="slow", outcome=JobOutcome.SUCCEEDED, seconds=0.02)
        record_operation(operation="publish", outcome="published", seconds=0.02, provider="redis")
        data = reader.get_metrics_data()
    assert data is not None
    metrics: Any = data.resource_metrics[0].scope_metrics[0].metrics
    bounds = {
        metric.name: metric.data.data_points[0].explicit_bounds
        for metric in metrics
        if metric.name.endswith(".duration")
    }
    assert [(name, each[0], each[-1]) for name, each in sorted(bounds.items())] == [
        ("jobs.operation.duration", 0.005, 3600.0),
        ("messaging.operation.duration", 0.005, 10.0),
    ]


def stored(state: str, value: int, queue: str | None = None) -> Point:
    """A point of the gauge of stored jobs."""
    attributes = {"state": state} if queue is None else {"queue": queue, "state": state}
    return Point("jobs.stored_jobs", "{job}", attributes, value)


def age(queue: str, value: float) -> Point:
    """A point of the gauge of the longest due job."""
    return Point("jobs.oldest_due.age", "s", {"queue": queue}, value)


def test_stored_jobs_show_the_last_sample(recording: Recording) -> None:
    jobs = StoredJobs()
    assert recording.points() == []
    jobs.report({("slow", "queued"): 9}, {"slow": 7.0})
    jobs.report({("slow", "queued"): 4, ("slow", "running"): 2, (None, "failed"): 3}, {"slow": 1.5})
    expected = [
        *(stored("queued", 4, "slow"), stored("running", 2, "slow"), stored("failed", 3)),
        age("slow", 1.5),
    ]
    assert in_order(recording.points()) == in_order(expected)
    assert in_order(recording.points()) == in_order(expected)


def test_a_known_queue_is_shown_with_zeros_when_it_is_empty(recording: Recording) -> None:
    jobs = StoredJobs(["fast"])
    jobs.report({("slow", "queued"): 1}, {"late": 2.0})
    jobs.report({(None, "failed"): 0}, {"slow": None})
    empty = [
        point
        for queue in ("fast", "slow", "late")
        for point in (stored("queued", 0, queue), stored("running", 0, queue), age(queue, 0.0))
    ]
    assert in_order(recording.points()) == in_order([*empty, stored("failed", 0)])


def test_stored_jobs_are_silent_once_cleared_and_know_their_queues_still(recording: Recording) -> None:
    jobs = StoredJobs()
    jobs.report({("slow", "queued"): 1}, {"slow": 2.0})
    assert [observation.value for observation in jobs.counts()] == [1, 0]
    assert [observation.value for observation in jobs.ages()] == [2.0]
    jobs.clear()
    assert recording.points() == []
    assert not jobs.counts()
    assert not jobs.ages()
    jobs.report({}, {})
    assert stored("queued", 0, "slow") in recording.points()


def test_a_later_change_of_the_reported_mapping_changes_no_sample(recording: Recording) -> None:
    counts: dict[tuple[str | None, str], int] = {(None, "failed"): 1}
    jobs = StoredJobs()
    jobs.report(counts, {})
    counts[None, "failed"] = 2
    assert recording.points() == [stored("failed", 1)]


def test_jobs_and_messages_are_shown_side_by_side_and_a_dropped_sample_is_silent(
    recording: Recording,
) -> None:
    jobs, messages = StoredJobs(), StoredMessages("redis")
    jobs.report({(None, "failed"): 1}, {})
    messages.report({("outbox", "pending"): 2}, {})
    assert sorted((point.metric, point.value) for point in recording.points()) == [
        ("jobs.stored_jobs", 1),
        ("messaging.stored_messages", 2),
    ]
    del jobs
    gc.collect()
    assert [point.metric for point in recording.points()] == ["messaging.stored_messages"]


def test_an_sdk_that_is_installed_after_the_first_job_is_served() -> None:
    program = """
from uow.telemetry import *
jobs = StoredJobs(["slow"])
jobs.report({}, {})
def execute():
    with job_span(handler="render", handler_version=1, queue="slow", attempt=1,
                  correlation_id=None, traceparent=None, tracestate=None) as span:
        span.set_outcome(JobOutcome.SUCCEEDED)
    record_job(handler="render", queue="slow", outcome=JobOutcome.SUCCEEDED, seconds=0.1)
execute()
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
metrics.set_meter_provider(MeterProvider([reader]))
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
execute()
found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
for metric in sorted(found, key=lambda metric: metric.name):
    print(metric.name, len(metric.data.data_points))
print([span.name for span in exporter.get_finished_spans()])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "jobs.oldest_due.age 1",
        "jobs.operation.duration 1",
        "jobs.operations 1",
        "jobs.stored_jobs 2",
        "['execute render']",
    ]
