"""A sample of how many jobs are stored, for the gauges."""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.state import JobState
from jobs.store import JobStore
from uow.loop.step import loop_step
from uow.telemetry import StoredJobs


class JobDiagnostics:
    """Counts the jobs that wait, run and ended without success; zeros included for `queues`."""

    def __init__(self, engine: AsyncEngine, store: JobStore, *, queues: Collection[str]) -> None:
        self._engine = engine
        self._store = store
        self._queues = tuple(queues)
        self._stored = StoredJobs()

    async def sample(self) -> bool:
        """Take one sample; there is never more to do."""
        counts = await loop_step(self._engine, self._store.counts)
        found = {each.queue: each for each in counts.queues}
        stored: dict[tuple[str | None, str], int] = {
            (None, JobState.FAILED.value): counts.failed,
            (None, JobState.CANCELLED.value): counts.cancelled,
            (None, JobState.INTERRUPTED.value): counts.interrupted,
        }
        ages: dict[str, float | None] = {}
        for queue in sorted({*self._queues, *found}):
            one = found.get(queue)
            stored[queue, JobState.QUEUED.value] = one.queued if one else 0
            stored[queue, JobState.RUNNING.value] = one.running if one else 0
            ages[queue] = one.oldest_due_age_seconds if one else None
        self._stored.report(stored, ages)
        return False

    def clear(self) -> None:
        """Observe nothing: another process samples."""
        self._stored.clear()
