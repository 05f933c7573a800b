"""The audit envelope: a span and a record around each attempt at a run, which never change its result."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.execution.context import JobContext
from jobs.execution.errors import JobFailure, JobResultError
from jobs.execution.handler import HandlerKind, JobHandler
from jobs.schedule.declaring.catalog import EffectiveSchedule
from jobs.schedule.declaring.result import ScheduleResult
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.storing.ground import HANDLER_PREFIX
from jobs.schedule.storing.store import ScheduleStore
from uow.loop.step import loop_step
from uow.secret import describe_error
from uow.telemetry import RunOutcome, record_audit_failure, run_span
from uow.unit import SelfManagedUnitOfWork

_log: Final = logging.getLogger(__name__)


class AuditEnvelope:
    """Runs the executors of schedules as handlers of jobs.

    An expected failure that an executor returns becomes a failed attempt with its code; exceptions and
    cancellations go on up. A record that cannot be written is a warning and a count, nothing more.
    """

    def __init__(
        self, engine: AsyncEngine, store: ScheduleStore, unit_of_work: Callable[[], SelfManagedUnitOfWork]
    ) -> None:
        self._engine = engine
        self._store = store
        self._unit_of_work = unit_of_work

    def handler_of(self, schedule: EffectiveSchedule) -> JobHandler:
        """The handler of the jobs of this schedule; it runs again after a crash, not after a failure."""
        return JobHandler(
            name=f"{HANDLER_PREFIX}{schedule.declaration.name}",
            version=1,
            kind=HandlerKind.PLAIN,
            function=partial(self._run, schedule),
        )

    async def _run(self, schedule: EffectiveSchedule, job: JobContext) -> str | None:
        context = ScheduleContext(job, self._unit_of_work)
        with run_span(
            schedule=context.name, run_id=str(context.run_id), cause=context.cause, attempt=context.attempt
        ) as span:
            await self._record(context, self._begun)
            try:
                result = _checked(await schedule.executor.execute(context), context)
            except (KeyboardInterrupt, GeneratorExit):
                raise  # the process or its event loop is ending, and nothing may be awaited any more
            except asyncio.CancelledError:
                span.set_outcome(RunOutcome.CANCELLED)
                reason = "cancelled" if context.stop_reason is None else context.stop_reason.value
                await self._record(context, partial(self._ended, reason, None))
                raise
            except BaseException as error:
                kind = type(error).__qualname__
                span.set_outcome(RunOutcome.FAILED, error_type=kind)
                await self._record(context, partial(self._ended, "exception", kind))
                raise
            if result is None or result.succeeded:
                span.set_outcome(RunOutcome.SUCCEEDED)
                summary = None if result is None else result.summary
                await self._record(context, partial(self._ended, None, summary))
                return summary
            span.set_outcome(RunOutcome.FAILED, error_type=result.code)
            await self._record(context, partial(self._ended, result.code, result.detail))
        # Outside the span, which would take the class of this for what has failed.
        raise JobFailure(result.code, result.detail)

    def _begun(self, connection: Connection, context: ScheduleContext) -> None:
        self._store.record_begun(connection, context.run_id, attempt=context.attempt)

    def _ended(
        self, code: str | None, detail: str | None, connection: Connection, context: ScheduleContext
    ) -> None:
        self._store.record_ended(
            connection, context.run_id, attempt=context.attempt, code=code, detail=detail
        )

    async def _record(
        self, context: ScheduleContext, write: Callable[[Connection, ScheduleContext], None]
    ) -> None:
        try:
            await loop_step(self._engine, lambda connection: write(connection, context))
        except Exception as error:  # noqa: BLE001 - told and counted; an audit never changes a result
            record_audit_failure(schedule=context.name)
            _log.warning(
                "the record of run %s of schedule %s was not written: %s",
                context.run_id,
                context.name,
                describe_error(error),
            )


def _checked(result: object, context: ScheduleContext) -> ScheduleResult | None:
    if result is None or isinstance(result, ScheduleResult):
        return result
    raise JobResultError(
        f"the executor of schedule {context.name} must return a ScheduleResult or None, "
        f"not {type(result).__name__}"
    )
