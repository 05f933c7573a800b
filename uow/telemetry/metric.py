"""The instruments of the meter, made when they are first needed, and the samples that its gauges show."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakSet

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

from uow.telemetry.name import SCOPE, Metric
from uow.telemetry.quiet import quietly

_MESSAGE_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_JOB_SECONDS: Final = (*_MESSAGE_SECONDS, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Bounds of the buckets; an SDK's own ones begin at 5, as they are made for milliseconds."""


@dataclass(frozen=True, slots=True)
class Instruments:
    """What is counted and timed as it happens."""

    operations: Counter
    duration: Histogram
    job_operations: Counter
    job_duration: Histogram
    slots: Counter
    audit_failures: Counter


class Sample:
    """Observations for whoever collects the gauges, until the next ones or until it is dropped.

    Before the first `keep` nothing is observed.
    """

    __slots__ = ("__weakref__", "_kept")

    def __init__(self) -> None:
        self._kept: Mapping[Metric, Sequence[Observation]] = {}
        _samples.add(self)
        quietly("gauges", instruments)

    def keep(self, observations: Mapping[Metric, Sequence[Observation]]) -> None:
        """Show these from now on, and no others."""
        self._kept = observations

    def of(self, metric: Metric) -> list[Observation]:
        """The observations of one gauge."""
        return list(self._kept.get(metric, ()))


_lock: Final = threading.Lock()
_instruments: list[Instruments] = []
_samples: Final[WeakSet[Sample]] = WeakSet()


def instruments() -> Instruments:
    """The instruments; an SDK that is installed later serves them, too. Raises what its meter raises."""
    if not _instruments:
        with _lock:
            if not _instruments:
                _instruments.append(_create(metrics.get_meter(SCOPE)))
    return _instruments[0]


def _create(meter: Meter) -> Instruments:
    _create_gauge(meter, Metric.STORED_MESSAGES, "{message}", "Unfinished and dead messages in the database")
    _create_gauge(meter, Metric.OLDEST_MESSAGE_AGE, "s", "Age of the oldest unfinished message")
    _create_gauge(meter, Metric.STORED_JOBS, "{job}", "Unfinished jobs, and those that ended without success")
    _create_gauge(meter, Metric.OLDEST_DUE_AGE, "s", "How long the longest due job waits")
    return Instruments(
        meter.create_counter(Metric.OPERATIONS, "{operation}", "Messages published and consumed, by outcome"),
        meter.create_histogram(
            Metric.OPERATION_DURATION,
            "s",
            "Time to publish or consume one message",
            explicit_bucket_boundaries_advisory=_MESSAGE_SECONDS,
        ),
        meter.create_counter(Metric.JOB_OPERATIONS, "{operation}", "Attempts of jobs, by outcome"),
        meter.create_histogram(
            Metric.JOB_OPERATION_DURATION,
            "s",
            "Time of one attempt of a job",
            explicit_bucket_boundaries_advisory=_JOB_SECONDS,
        ),
        meter.create_counter(Metric.SCHEDULE_SLOTS, "{slot}", "Slots of schedules, by outcome"),
        meter.create_counter(
            Metric.SCHEDULE_AUDIT_FAILURES, "{record}", "Records of runs that could not be written"
        ),
    )


def _create_gauge(meter: Meter, metric: Metric, unit: str, description: str) -> None:
    meter.create_observable_gauge(metric, [_observe(metric)], unit, description)


def _observe(metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _options: [observation for sample in list(_samples) for observation in sample.of(metric)]
