"""Running one attempt: the handler is called, what it ended in is settled, and counted once."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.errors import AttemptFencedError, AttemptMissingError, JobCancelledError
from jobs.execution.attempt_run import AttemptRun
from jobs.execution.call import HandlerCall
from jobs.execution.database_failure import is_database_lost
from jobs.execution.ending import (
    COMMITTED,
    LOST,
    Ending,
    cancelled,
    database_lost,
    failed,
    interrupted,
    outcome_in,
    outcome_of,
    stopped,
    succeeded,
    timed_out,
)
from jobs.execution.handler import HandlerKind
from jobs.execution.settler import Settler
from jobs.execution.stop_reason import StopReason
from jobs.settlement import Settlement
from jobs.state import AttemptState
from jobs.store import JobStore
from uow.failure_text import folder_of, frames_of
from uow.loop.step import loop_step
from uow.loop.supervision import log_failure
from uow.telemetry import (
    NOTHING,
    JobOutcome,
    OperationSpan,
    is_tracing,
    job_span,
    keep_correlation_id,
    record_job,
)
from uow.unit import SelfManagedUnitOfWork
from uow.unit_errors import CommitOutcomeUnknownError

PATIENCE_SECONDS: Final = 10.0
"""How long a handler that was asked to end is waited for."""

_HERE: Final = folder_of(__file__)

_log: Final = logging.getLogger(__name__)


class AttemptRunner:
    """Runs attempts, any number at once; each is recorded, counted and logged, and raises nothing.

    A handler that ignores its timeout, or a stop of the executor, for ten seconds is given up: what it
    ended in is recorded, its slot is free, and what it still does is not kept. recorded: called for each once
    it is; ended: at the end of its task.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: JobStore,
        settler: Settler,
        unit_of_work: Callable[[], SelfManagedUnitOfWork],
        *,
        recorded: Callable[[AttemptRun], None],
        ended: Callable[[AttemptRun], None],
    ) -> None:
        self._engine = engine
        self._store = store
        self._settler = settler
        self._recorded = recorded
        self._ended = ended
        self._tracing = False
        self._giving_up: set[asyncio.Task[None]] = set()
        self.call = HandlerCall(engine, store, unit_of_work)

    def look(self) -> None:
        """See whether there is an SDK for traces; asked for each batch, since it costs more than a job."""
        self._tracing = is_tracing()

    async def run(self, run: AttemptRun) -> None:
        """Run it to its recorded end, in a task of its own."""
        job = run.job
        try:
            if self._tracing:
                await self._run_traced(run)
            else:
                keep_correlation_id(job.correlation_id)
                await self._run(run, NOTHING)
        except Exception as error:  # noqa: BLE001 - a defect of ours; logged, and the lease brings the job back
            log_failure(f"attempt at job {job.reference.job_id}", error)
            self._settler.let_go(run.reference)
        except BaseException:
            self._settler.let_go(run.reference)
            raise
        finally:
            run.end()
            self._ended(run)

    async def _run_traced(self, run: AttemptRun) -> None:
        job = run.job
        with job_span(
            handler=job.handler,
            handler_version=job.handler_version,
            queue=job.queue,
            attempt=job.reference.ordinal,
            correlation_id=job.correlation_id,
            traceparent=job.traceparent,
            tracestate=job.tracestate,
        ) as span:
            await self._run(run, span)

    async def _run(self, run: AttemptRun, span: OperationSpan) -> None:
        ending = await self._ending(run)
        run.end()
        if run.given_up:
            return
        outcome = await self._settled(run, ending)
        span.set_outcome(outcome, error_type=ending.error_type)
        self._count(run, outcome, ending)

    def give_up(self, run: AttemptRun) -> None:
        """Wait no longer for a handler that was asked to end; its slot is free."""
        if run.ended:
            return
        run.given_up = True
        run.end()
        task = asyncio.create_task(self._record_given_up(run))
        self._giving_up.add(task)
        task.add_done_callback(self._giving_up.discard)

    async def given_up(self) -> None:
        """Wait until all that were given up are recorded."""
        while self._giving_up:
            await asyncio.wait(self._giving_up)

    async def _record_given_up(self, run: AttemptRun) -> None:
        reason = run.stop_reason or StopReason.SHUTDOWN
        _log.error(
            "handler %s goes on although it was asked to end (%s), and is given up; job %s, attempt %d",
            run.handler.name,
            reason,
            run.reference.job_id,
            run.reference.ordinal,
        )
        ending = stopped(run, reason, None)
        self._count(run, await self._settled(run, ending), ending)

    async def _ending(self, run: AttemptRun) -> Ending:
        if run.stop_reason is not None:  # before it could begin
            return stopped(run, run.stop_reason, None)
        run.begin()
        try:
            if self.call.is_free(run):
                result = await self.call.result(run)
            else:
                await self.call.wait_for_turn(run)
                with self._limited(run):
                    result = await self.call.result(run)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) or _is_being_closed(error):
                raise  # the process or its event loop is ending, and nothing may be awaited any more
            run.end()
            cancelled_here = await _forget_cancellation(run) and isinstance(error, asyncio.CancelledError)
            if cancelled_here and run.stop_reason is None:
                run.context.mark_stopped(StopReason.SHUTDOWN)  # for a thread, which goes on
                return interrupted(run)
            return self._raised(run, error)
        run.end()
        await _forget_cancellation(run)
        if run.handler.kind is HandlerKind.TRANSACTIONAL:
            return COMMITTED
        if run.stop_reason is StopReason.LEASE_LOST:
            return LOST
        return timed_out(run) if run.too_late else succeeded(run, result)

    @contextlib.contextmanager
    def _limited(self, run: AttemptRun) -> Iterator[None]:
        """A block in which the handler is asked to end, and then given up, when it takes too long."""
        limit = self.call.timeout_seconds(run)
        if limit is None:
            yield
            return
        loop = asyncio.get_running_loop()

        def time_out() -> None:
            run.ask_to_stop(StopReason.TIMEOUT)
            loop.call_later(PATIENCE_SECONDS, self.give_up, run)

        run.limit(limit)
        timer = loop.call_later(limit, time_out)
        try:
            yield
        finally:
            timer.cancel()

    def _raised(self, run: AttemptRun, error: BaseException) -> Ending:
        """What it means that the call ended in `error`; of an unknown commit the settlement finds out."""
        transactional = run.handler.kind is HandlerKind.TRANSACTIONAL
        if transactional and isinstance(error, CommitOutcomeUnknownError):
            return database_lost(run, error)
        if isinstance(error, AttemptFencedError | AttemptMissingError) and error.reference == run.reference:
            return LOST
        if isinstance(error, JobCancelledError) and error.reference == run.reference:
            return cancelled(run)
        if run.stop_reason is not None:
            return stopped(run, run.stop_reason, error)
        if run.too_late:
            return timed_out(run, error)
        lost = transactional and is_database_lost(error)
        return database_lost(run, error) if lost else failed(run, error)

    async def _settled(self, run: AttemptRun, ending: Ending) -> JobOutcome:
        settlement = ending.settlement
        if settlement is None:
            self._settler.let_go(run.reference)
            outcome = ending.outcome
            may_have_ended = run.handler.kind is HandlerKind.TRANSACTIONAL
        else:
            outcome = outcome_of(settlement, await self._settler.settle(settlement))
            may_have_ended = True
        if outcome is not JobOutcome.LEASE_LOST or not may_have_ended:
            return outcome
        # A commit, of the handler or of its end, may have been made, and hidden by a lost connection.
        return outcome_in(await self._find_state(run), settlement) or outcome

    async def _find_state(self, run: AttemptRun) -> AttemptState | None:
        try:
            return await loop_step(
                self._engine, lambda connection: self._store.find_attempt_state(connection, run.reference)
            )
        except Exception as error:  # noqa: BLE001 - logged; then whoever recovers the job sees what it is
            log_failure(f"attempt at job {run.reference.job_id}", error)
            return None

    def _count(self, run: AttemptRun, outcome: JobOutcome, ending: Ending) -> None:
        seconds = time.monotonic() - run.begun_at
        record_job(handler=run.handler.name, queue=run.job.queue, outcome=outcome, seconds=seconds)
        self._recorded(run)
        if outcome is not JobOutcome.SUCCEEDED:
            _tell(run, outcome, ending)


def _tell(run: AttemptRun, outcome: JobOutcome, ending: Ending) -> None:
    settlement: Settlement | None = ending.settlement
    frames = "" if ending.error is None else frames_of(ending.error, handlers_are_called_in=_HERE)
    quiet = outcome in {JobOutcome.CANCELLED, JobOutcome.INTERRUPTED} and not frames
    level = logging.INFO if quiet else logging.ERROR if outcome is JobOutcome.FAILED else logging.WARNING
    _log.log(
        level,
        "job %s, handler %s, attempt %d: %s%s%s",
        run.reference.job_id,
        run.handler.name,
        run.reference.ordinal,
        outcome,
        "" if settlement is None or settlement.error_code is None else f" ({settlement.error_code})",
        f"\n{frames}" if frames else "",
    )


async def _forget_cancellation(run: AttemptRun) -> bool:
    """Whether the handler was cancelled; that is over, and cancels nothing that is awaited from now on."""
    task = asyncio.current_task()
    was_cancelled = task is not None and task.cancelling() > 0
    if was_cancelled or run.stop_reason is not None:  # the handler may not have met it yet
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
    while task is not None and task.cancelling():
        task.uncancel()
    return was_cancelled


def _is_being_closed(error: BaseException) -> bool:
    """Whether `error` comes from the end of the event loop and not from a handler that raised it itself."""
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return asyncio.current_task() is None
    except RuntimeError:  # no loop runs any more
        return True
