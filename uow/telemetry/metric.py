"""Measurements: operations done and messages stored."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakSet

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation

from uow.telemetry.name import SCOPE, Metric, MetricAttribute
from uow.telemetry.quiet import quietly


@dataclass(frozen=True, slots=True)
class _Instruments:
    operations: Counter
    duration: Histogram


_lock: Final = threading.Lock()
_instruments: list[_Instruments] = []
_holders: Final["WeakSet[StoredMessages]"] = WeakSet()


def record_operation(
    *,
    operation: str,
    outcome: str,
    seconds: float,
    provider: str,
    consumer: str | None = None,
    count: int = 1,
) -> None:
    """Count `count` operations of one outcome, each of which took `seconds`. Never raises.

    operation: `publish` or `consume`. outcome: one of PublishOutcome or ConsumeOutcome. provider: the broker
    (`rabbitmq`, `redis`, `local`). consumer: its name, for `consume`.
    """
    if count < 1:
        return
    attributes = {
        MetricAttribute.PROVIDER.value: provider,
        MetricAttribute.OPERATION.value: str(operation),
        MetricAttribute.OUTCOME.value: str(outcome),
    }
    if consumer is not None:
        attributes[MetricAttribute.CONSUMER.value] = consumer
    quietly("operation metrics", lambda: _record(attributes, seconds, count))


class StoredMessages:
    """The last sample of what outbox and inbox hold, for whoever collects the gauges.

    provider: the broker of these messages (`rabbitmq`, `redis`, `local`). Before the first `report` and after
    `clear` nothing is observed, so that of many processes only the sampling one speaks.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._counts: Mapping[tuple[str, str], int] = {}
        self._ages: Mapping[str, float | None] = {}
        _holders.add(self)
        quietly("stored messages", _ready)

    def report(
        self, counts: Mapping[tuple[str, str], int], oldest_age_seconds: Mapping[str, float | None]
    ) -> None:
        """Keep a sample: messages by (queue, state), zeros included, and the oldest one's age by queue.

        queue: `outbox` or `inbox`. An age of None means that nothing waits and is reported as 0.
        """
        self._counts = dict(counts)
        self._ages = dict(oldest_age_seconds)

    def clear(self) -> None:
        """Observe nothing until the next report; for a process that stopped sampling."""
        self._counts = {}
        self._ages = {}

    def counts(self) -> list[Observation]:
        """The observations of `messaging.stored_messages`."""
        return [
            Observation(
                count,
                {
                    MetricAttribute.PROVIDER.value: self._provider,
                    MetricAttribute.QUEUE.value: queue,
                    MetricAttribute.STATE.value: state,
                },
            )
            for (queue, state), count in self._counts.items()
        ]

    def ages(self) -> list[Observation]:
        """The observations of `messaging.oldest_message.age`."""
        return [
            Observation(
                age or 0.0,
                {MetricAttribute.PROVIDER.value: self._provider, MetricAttribute.QUEUE.value: queue},
            )
            for queue, age in self._ages.items()
        ]


def _record(attributes: Mapping[str, str], seconds: float, count: int) -> None:
    instruments = _ready()
    instruments.operations.add(count, attributes)
    for _ in range(count):
        instruments.duration.record(seconds, attributes)


def _ready() -> _Instruments:
    if not _instruments:
        with _lock:
            if not _instruments:
                _instruments.append(_create())
    return _instruments[0]


def _create() -> _Instruments:
    meter = metrics.get_meter(SCOPE)
    meter.create_observable_gauge(
        Metric.STORED_MESSAGES, [_observe_counts], "{message}", "Unfinished and dead messages in the database"
    )
    meter.create_observable_gauge(
        Metric.OLDEST_MESSAGE_AGE, [_observe_ages], "s", "Age of the oldest unfinished message"
    )
    return _Instruments(
        meter.create_counter(Metric.OPERATIONS, "{operation}", "Messages published and consumed, by outcome"),
        meter.create_histogram(Metric.OPERATION_DURATION, "s", "Time to publish or consume one message"),
    )


def _observe_counts(_options: CallbackOptions) -> Iterable[Observation]:
    return [observation for holder in list(_holders) for observation in holder.counts()]


def _observe_ages(_options: CallbackOptions) -> Iterable[Observation]:
    return [observation for holder in list(_holders) for observation in holder.ages()]
