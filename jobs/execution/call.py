"""Calling the handler of an attempt, each kind in its own way."""

import inspect
from collections.abc import Callable
from typing import Any, Final, assert_never

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session

from jobs.answer import ProgressAnswer
from jobs.completion import JobCompletion
from jobs.execution.attempt_run import AttemptRun
from jobs.execution.errors import AttemptStoppedError, JobResultError, JobTimeoutError
from jobs.execution.handler import HandlerKind
from jobs.execution.stop_reason import StopReason
from jobs.execution.thread_call import call_in_thread
from jobs.execution.write_turns import WriteTurns
from jobs.store import JobStore
from uow.loop.step import loop_step
from uow.sql.dialect import database_of
from uow.unit import SelfManagedUnitOfWork

_TRANSACTION_ATTEMPTS: Final = 5
_SHARE_OF_THE_LEASE: Final = 0.5


class HandlerCall:
    """Calls handlers and records what they report.

    unit_of_work: makes a new unit for each transactional attempt, with a JobCompletionParticipant of `store`
    among its participants. On a database with one writer at a time (SQLite) transactional handlers run one
    after the other, for half a lease at most: nothing can be renewed while one of them writes.
    """

    def __init__(
        self, engine: AsyncEngine, store: JobStore, unit_of_work: Callable[[], SelfManagedUnitOfWork]
    ) -> None:
        self._engine = engine
        self._store = store
        self._unit_of_work = unit_of_work
        turns = WriteTurns(lease_seconds=store.ground.options.lease_seconds)
        self._turns = turns if database_of(engine).single_writer else None

    def is_free(self, run: AttemptRun) -> bool:
        """Whether it may call its handler at once and for as long as it likes."""
        return run.handler.timeout_seconds is None and run.handler.kind is not HandlerKind.TRANSACTIONAL

    async def wait_for_turn(self, run: AttemptRun) -> None:
        """Return when this attempt may call its handler; waits where only one may write."""
        if self._turns is not None and run.handler.kind is HandlerKind.TRANSACTIONAL:
            await self._turns.take(run)

    async def result(self, run: AttemptRun) -> str | None:
        """The result reference that the handler returned; of a transactional one it is committed already.

        Raises what the handler or the commit raises, and JobResultError.
        """
        run.called = True
        match run.handler.kind:
            case HandlerKind.PLAIN:
                return _checked(await run.handler.function(run.context), run)
            case HandlerKind.THREAD:
                called = call_in_thread(run.handler.function, run.context, name=run.handler.task_name)
                return _checked(await called, run)
            case HandlerKind.TRANSACTIONAL:
                return await self._in_unit(run)
            case _:
                assert_never(run.handler.kind)

    def timeout_seconds(self, run: AttemptRun) -> float | None:
        """How long this attempt may take; None without limit."""
        own = run.handler.timeout_seconds
        if self._turns is None or run.handler.kind is not HandlerKind.TRANSACTIONAL:
            return own
        limit = self._store.ground.options.lease_seconds * _SHARE_OF_THE_LEASE
        return limit if own is None else min(own, limit)

    async def report(self, run: AttemptRun, percent: int, message: str | None) -> ProgressAnswer:
        """Record progress; a handler that should end hears of it at once."""

        def record(connection: Connection) -> ProgressAnswer:
            return self._store.progress(connection, run.reference, percent, message)

        def record_in_unit(session: Session) -> ProgressAnswer:
            return record(session.connection(bind_arguments={"clause": self._store.ground.job}))

        if run.unit is not None and self._turns is not None:
            # It holds the one write lock, or may at any moment: only its own transaction can write.
            answer = await run.unit.session.run_sync(record_in_unit)
        else:
            answer = await loop_step(self._engine, record)
        match answer:
            case ProgressAnswer.CANCEL_REQUESTED:
                run.ask_to_stop(StopReason.CANCEL_REQUESTED)
            case ProgressAnswer.FENCED:
                run.ask_to_stop(StopReason.LEASE_LOST)
            case _:
                pass
        return answer

    async def _in_unit(self, run: AttemptRun) -> str | None:
        async def operation(unit: SelfManagedUnitOfWork) -> str | None:
            if run.stop_reason is not None:  # asked to end while it ran before
                raise AttemptStoppedError(run.stop_reason)
            run.context.begin_anew()
            run.unit = unit
            try:
                result = _checked(await run.handler.function(run.context, unit), run)
            finally:
                run.unit = None
            if run.too_late:
                raise JobTimeoutError(f"the handler took longer than {run.timeout_seconds:g} s")
            unit.stage(JobCompletion(reference=run.reference, result_reference=result))
            return result

        return await self._unit_of_work().execute(operation, attempts=_TRANSACTION_ATTEMPTS)


def _checked(result: Any, run: AttemptRun) -> str | None:
    if result is None or isinstance(result, str):
        return result
    if inspect.iscoroutine(result):
        result.close()
        raise JobResultError(
            f"handler {run.handler.name} gave a coroutine that nobody awaits: it is not `async def` itself; "
            "look at its decorator"
        )
    raise JobResultError(
        f"handler {run.handler.name} must return a text, the result reference, or None, "
        f"not {type(result).__name__}"
    )
