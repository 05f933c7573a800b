"""Measurements of messages: operations done and messages stored."""

from collections.abc import Mapping
from typing import Final

from opentelemetry.metrics import Observation

from uow.telemetry.metric import Sample, instruments
from uow.telemetry.name import Metric, MetricAttribute
from uow.telemetry.quiet import quietly

# Looking up the value of a member costs more than the rest of building an attribute.
_PROVIDER: Final = MetricAttribute.PROVIDER.value
_OPERATION: Final = MetricAttribute.OPERATION.value
_OUTCOME: Final = MetricAttribute.OUTCOME.value
_CONSUMER: Final = MetricAttribute.CONSUMER.value
_QUEUE: Final = MetricAttribute.QUEUE.value
_STATE: Final = MetricAttribute.STATE.value


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
    attributes = {_PROVIDER: provider, _OPERATION: str(operation), _OUTCOME: str(outcome)}
    if consumer is not None:
        attributes[_CONSUMER] = consumer
    quietly("operation metrics", lambda: _record(attributes, seconds, count))


class StoredMessages:
    """The last sample of what outbox and inbox hold, for whoever collects the gauges.

    provider: the broker of these messages (`rabbitmq`, `redis`, `local`). Before the first `report` and after
    `clear` nothing is observed, so that of many processes only the sampling one speaks.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._sample = Sample()

    def report(
        self, counts: Mapping[tuple[str, str], int], oldest_age_seconds: Mapping[str, float | None]
    ) -> None:
        """Keep a sample: messages by (queue, state), zeros included, and the oldest one's age by queue.

        queue: `outbox` or `inbox`. An age of None means that nothing waits and is reported as 0.
        """
        self._sample.keep(
            {
                Metric.STORED_MESSAGES: [
                    Observation(count, {_PROVIDER: self._provider, _QUEUE: queue, _STATE: state})
                    for (queue, state), count in counts.items()
                ],
                Metric.OLDEST_MESSAGE_AGE: [
                    Observation(age or 0.0, {_PROVIDER: self._provider, _QUEUE: queue})
                    for queue, age in oldest_age_seconds.items()
                ],
            }
        )

    def clear(self) -> None:
        """Observe nothing until the next report; for a process that stopped sampling."""
        self._sample.keep({})

    def counts(self) -> list[Observation]:
        """The observations of `messaging.stored_messages`."""
        return self._sample.of(Metric.STORED_MESSAGES)

    def ages(self) -> list[Observation]:
        """The observations of `messaging.oldest_message.age`."""
        return self._sample.of(Metric.OLDEST_MESSAGE_AGE)


def _record(attributes: Mapping[str, str], seconds: float, count: int) -> None:
    made = instruments()
    made.operations.add(count, attributes)
    for _ in range(count):
        made.duration.record(seconds, attributes)
