"""Measurements of jobs: attempts made and jobs stored."""

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.metrics import Observation

from uow.telemetry.metric import Sample, instruments
from uow.telemetry.name import UNFINISHED_JOB_STATES, JobOutcome, Metric, MetricAttribute
from uow.telemetry.quiet import quietly

# Looking up the value of a member costs more than the rest of building an attribute.
_HANDLER: Final = MetricAttribute.HANDLER.value
_QUEUE: Final = MetricAttribute.QUEUE.value
_OUTCOME: Final = MetricAttribute.OUTCOME.value
_STATE: Final = MetricAttribute.STATE.value


def record_job(
    *, handler: str, queue: str | None, outcome: JobOutcome, seconds: float | None, count: int = 1
) -> None:
    """Count `count` attempts of one outcome, each of which took `seconds`. Never raises.

    handler: its name, one of the few that code chooses, never an id or a scope. queue: None or empty when it
    is not known, and then no attribute. seconds: None when no attempt was made or its time is not known; then
    only the counter moves.
    """
    if count < 1:
        return
    attributes = {_HANDLER: handler, _OUTCOME: str(outcome)}
    if queue:
        attributes[_QUEUE] = queue
    quietly("job metrics", lambda: _record(attributes, seconds, count))


class StoredJobs:
    """The last sample of what the table of jobs holds, for whoever collects the gauges.

    queues: those that are known from the start; queues of a report are known from then on. A known queue is
    observed with zeros when it is empty. Before the first `report` and after `clear` nothing is observed, so
    that of many processes only the sampling one speaks.
    """

    def __init__(self, queues: Iterable[str] = ()) -> None:
        self._queues = set(queues)
        self._sample = Sample()

    def report(
        self,
        counts: Mapping[tuple[str | None, str], int],
        oldest_due_age_seconds: Mapping[str, float | None],
    ) -> None:
        """Keep a sample: jobs by (queue, state), and for how long the longest due one waits, by queue.

        queue: None for states that are counted over all queues, and then no attribute. An age of None means
        that none is due and is reported as 0.
        """
        self._queues.update(queue for queue, _ in counts if queue is not None)
        self._queues.update(oldest_due_age_seconds)
        queues = sorted(self._queues)
        jobs: dict[tuple[str | None, str], int] = {
            (queue, state): 0 for queue in queues for state in UNFINISHED_JOB_STATES
        }
        jobs.update(counts)
        self._sample.keep(
            {
                Metric.STORED_JOBS: [
                    Observation(count, {_STATE: state} if queue is None else {_QUEUE: queue, _STATE: state})
                    for (queue, state), count in jobs.items()
                ],
                Metric.OLDEST_DUE_AGE: [
                    Observation(oldest_due_age_seconds.get(queue) or 0.0, {_QUEUE: queue}) for queue in queues
                ],
            }
        )

    def clear(self) -> None:
        """Observe nothing until the next report; for a process that stopped sampling."""
        self._sample.keep({})

    def counts(self) -> list[Observation]:
        """The observations of `jobs.stored_jobs`."""
        return self._sample.of(Metric.STORED_JOBS)

    def ages(self) -> list[Observation]:
        """The observations of `jobs.oldest_due.age`."""
        return self._sample.of(Metric.OLDEST_DUE_AGE)


def _record(attributes: Mapping[str, str], seconds: float | None, count: int) -> None:
    made = instruments()
    made.job_operations.add(count, attributes)
    if seconds is not None:
        for _ in range(count):
            made.job_duration.record(seconds, attributes)
