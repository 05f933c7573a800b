"""What is stored and waiting, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inbox.view import InboxCounts
from jobs.answer import JobCounts
from outbox.failure import OutboxCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Unfinished and dead messages, and jobs, of one App at one moment.

    jobs: those of all scopes; None when the tables of jobs were left out. dead_deliveries: what the broker's
    dead queues hold, by consumer; empty with `local:`. dead_deliveries_unknown: why that could not be asked,
    else None.
    """

    outbox: OutboxCounts
    inbox: InboxCounts
    jobs: JobCounts | None = None
    dead_deliveries: Mapping[str, int]
    dead_deliveries_unknown: str | None = None

    @property
    def oldest_age_seconds(self) -> dict[str, float | None]:
        """The age of the oldest unfinished message of each queue; None when there is none."""
        return {
            "outbox": self.outbox.oldest_unfinished_age_seconds,
            "inbox": self.inbox.oldest_unfinished_age_seconds,
        }

    def rows(self) -> list[tuple[str, str, int]]:
        """Queue, state and number of messages; zeros too."""
        outbox, inbox = self.outbox, self.inbox
        return [
            ("outbox", "pending", outbox.pending),
            ("outbox", "publishing", outbox.publishing),
            ("outbox", "dead_lettered", outbox.dead_lettered),
            ("inbox", "received", inbox.received),
            ("inbox", "processing", inbox.processing),
            ("inbox", "failed", inbox.failed),
            ("inbox", "dead_lettered", inbox.dead_lettered),
        ]

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        document: dict[str, Any] = {"outbox": {}, "inbox": {}}
        for queue, state, count in self.rows():
            document[queue][state] = count
        for queue, age in self.oldest_age_seconds.items():
            document[queue]["oldest_age_seconds"] = age
        document["dead_deliveries"] = dict(self.dead_deliveries)
        document["dead_deliveries_unknown"] = self.dead_deliveries_unknown
        if self.jobs is not None:
            document["jobs"] = _jobs_document(self.jobs)
        return document


def _jobs_document(counts: JobCounts) -> dict[str, Any]:
    queues = {
        each.queue: {
            "queued": each.queued,
            "running": each.running,
            "oldest_due_age_seconds": each.oldest_due_age_seconds,
        }
        for each in counts.queues
    }
    ended = {"failed": counts.failed, "cancelled": counts.cancelled, "interrupted": counts.interrupted}
    return {"queues": queues, **ended}
