"""One short transaction of a store: sync code entered once through `run_sync`, re-run when it may be."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from uow.sql.dialect import database_of
from uow.sql.fault import Fault, fault_of
from uow.sql.sql_mode import require_safe_sql_mode

T = TypeVar("T")

_CANCEL_AGAIN_SECONDS: Final = 1.0


async def run_step(
    engine: AsyncEngine,
    step: Callable[[Connection], T],
    *,
    attempts: int = 5,
    limit_seconds: float | None = None,
) -> T:
    """Run `step` in a transaction of its own and commit it; returns what it returned.

    A deadlock, a serialization failure or a busy database runs the whole step again in a fresh
    transaction, at most `attempts` times; the step must therefore have no effect outside its connection.
    A cancelled caller leaves no connection behind. An attempt that takes longer than `limit_seconds` (the
    database does not answer) ends with TimeoutError; None waits for ever.
    """
    isolation = database_of(engine).claim_isolation
    source = engine.execution_options(isolation_level=isolation) if isolation else engine
    for attempt in range(1, attempts + 1):
        try:
            return await finish_despite_cancellation(_run_once(source, step), limit_seconds=limit_seconds)
        except Exception as error:
            if attempt == attempts or fault_of(error) is not Fault.RETRY_TRANSACTION:
                raise
            await asyncio.sleep(random.random() * 0.02 * 2**attempt)  # noqa: S311 - spreads collisions
    raise AssertionError("unreachable")


async def _run_once(engine: AsyncEngine, step: Callable[[Connection], T]) -> T:
    async with engine.connect() as connection:
        return await connection.run_sync(_in_transaction, step)


def _in_transaction(connection: Connection, step: Callable[[Connection], T]) -> T:
    require_safe_sql_mode(connection)
    with connection.begin():
        return step(connection)


async def finish_despite_cancellation(
    work: Coroutine[Any, Any, T],
    *,
    limit_seconds: float | None = None,
    patience_seconds: float | None = None,
) -> T:
    """Await `work` to its end even when the caller is cancelled meanwhile; then the cancellation goes on.

    Use it around work that must not be torn in the middle: COMMIT, ROLLBACK, closing, one store step.
    `work` runs in a task of its own. When the caller was cancelled, CancelledError is raised after the
    end of `work`, whatever its result; an error of `work` is then its cause.
    `limit_seconds` counts from the start, `patience_seconds` from the first cancellation; work that takes
    longer is cancelled, until it gives in, and ends with TimeoutError unless it has an error of its own.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    deadline = None if limit_seconds is None else loop.time() + limit_seconds
    cancellation: asyncio.CancelledError | None = None
    late = False
    while not task.done():
        try:
            await asyncio.wait([task], timeout=None if deadline is None else deadline - loop.time())
        except asyncio.CancelledError as error:
            cancellation = error
            if deadline is None and patience_seconds is not None:
                deadline = loop.time() + patience_seconds
        else:
            if not task.done():
                late = True
                task.cancel()
                deadline = loop.time() + _CANCEL_AGAIN_SECONDS
    if cancellation is None:
        if late and task.cancelled():
            raise TimeoutError(f"not finished within {limit_seconds} s")
        return task.result()
    failure: BaseException | None = TimeoutError() if late and task.cancelled() else None
    if not task.cancelled():
        failure = task.exception()
    raise cancellation from failure
