"""What a handler in a thread is given."""

import asyncio
import threading

from jobs.answer import ProgressAnswer
from jobs.execution.context import AttemptFacts, Report
from jobs.execution.errors import AttemptStoppedError
from jobs.execution.stop_reason import StopReason
from jobs.progress import check_percent
from jobs.snapshot import StartedJob


class ThreadJobContext(AttemptFacts):
    """What `def handler(context)` is given.

    A thread cannot be cancelled: look at `stop_reason`, call `raise_if_stopped()` between steps, and wait
    with `wait(seconds)`.
    """

    def __init__(self, job: StartedJob, report: Report, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(job)
        self._report = report
        self._loop = loop
        self._stopped = threading.Event()

    def progress(self, percent: int, message: str | None = None) -> ProgressAnswer:
        """As JobContext.progress; waits until it is recorded."""
        check_percent(percent)

        async def report() -> ProgressAnswer:
            return await self._report(percent, message)

        return asyncio.run_coroutine_threadsafe(report(), self._loop).result()

    def mark_stopped(self, reason: StopReason) -> None:
        """For the executor: the attempt is asked to end."""
        super().mark_stopped(reason)
        self._stopped.set()

    def wait(self, seconds: float) -> bool:
        """Sleep, or less when the attempt is asked to end; whether it is."""
        return self._stopped.wait(seconds)

    def raise_if_stopped(self) -> None:
        """Raises AttemptStoppedError when the attempt is asked to end."""
        if self._stop_reason is not None:
            raise AttemptStoppedError(self._stop_reason)
