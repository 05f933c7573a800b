"""One attempt on its way, and the executor's hand on it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from jobs.answer import ProgressAnswer
from jobs.execution.context import JobContext
from jobs.execution.handler import HandlerKind, JobHandler
from jobs.execution.stop_reason import StopReason
from jobs.execution.thread_context import ThreadJobContext
from jobs.key import AttemptReference
from jobs.snapshot import StartedJob
from uow.unit import SelfManagedUnitOfWork

RunReport: TypeAlias = Callable[["AttemptRun", int, str | None], Awaitable[ProgressAnswer]]


class AttemptRun:
    """A started job with its handler; for the event loop's thread only.

    on_end: called once, when its slot is free: the handler has ended, or is waited for no longer. unit: that
    of a transactional handler while it runs. timeout_seconds: in force since `begun_at`. called: whether the
    handler was.
    """

    def __init__(
        self,
        job: StartedJob,
        handler: JobHandler,
        report: RunReport,
        *,
        on_end: Callable[["AttemptRun"], None] = lambda run: None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.job = job
        self.handler = handler
        self.timeout_seconds: float | None = None
        self.called = False
        self.unit: SelfManagedUnitOfWork | None = None
        told = partial(report, self)
        self.context: JobContext | ThreadJobContext = (
            ThreadJobContext(job, told, loop) if handler.kind is HandlerKind.THREAD else JobContext(job, told)
        )
        self.begun_at = time.monotonic()
        self.ended = False
        self._on_end = on_end
        self._over: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.given_up = False
        self._interruptible = False

    @property
    def reference(self) -> AttemptReference:
        """The attempt."""
        return self.job.reference

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it is asked to end, if it is."""
        return self.context.stop_reason

    @property
    def too_late(self) -> bool:
        """Whether its timeout has passed, noticed or not: an event loop that was blocked notices late."""
        limit = self.timeout_seconds
        return limit is not None and time.monotonic() - self.begun_at >= limit

    @property
    def over(self) -> asyncio.Future[None]:
        """Done when its slot is free."""
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
            if self.ended:
                self._over.set_result(None)
        return self._over

    def ask_to_stop(self, reason: StopReason) -> None:
        """Tell the handler to end; the first reason stays, but for a lost lease, which goes before all."""
        first = self.context.stop_reason is None
        if first or reason is StopReason.LEASE_LOST:
            self.context.mark_stopped(reason)
        if first and self._interruptible and self.task is not None:
            self.task.cancel()

    def limit(self, seconds: float) -> None:
        """It may take so long from now on."""
        self.begun_at = time.monotonic()
        self.timeout_seconds = seconds

    def begin(self) -> None:
        """The handler is being called: from now on a stop cancels the task, unless it runs in a thread."""
        self._interruptible = self.handler.kind is not HandlerKind.THREAD

    def end(self) -> None:
        """The handler has ended, or is waited for no longer: its slot is free, its task left alone."""
        self._interruptible = False
        if self.ended:
            return
        self.ended = True
        self._on_end(self)
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
