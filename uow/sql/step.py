"""One short transaction of a store: sync code entered once through `run_sync`, re-run when it may be."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from uow.sql.dialect import database_of
from uow.sql.fault import Fault, fault_of

T = TypeVar("T")


async def run_step(engine: AsyncEngine, step: Callable[[Connection], T], *, attempts: int = 5) -> T:
    """Run `step` in a transaction of its own and commit it; returns what it returned.

    A deadlock, a serialization failure or a busy database runs the whole step again in a fresh
    transaction, at most `attempts` times; the step must therefore have no effect outside its connection.
    A cancelled caller leaves no connection behind.
    """
    isolation = database_of(engine).claim_isolation
    source = engine.execution_options(isolation_level=isolation) if isolation else engine
    for attempt in range(1, attempts + 1):
        try:
            return await finish_despite_cancellation(_run_once(source, step))
        except Exception as error:
            if attempt == attempts or fault_of(error) is not Fault.RETRY_TRANSACTION:
                raise
            await asyncio.sleep(random.random() * 0.02 * 2**attempt)  # noqa: S311 - spreads collisions
    raise AssertionError("unreachable")


async def _run_once(engine: AsyncEngine, step: Callable[[Connection], T]) -> T:
    async with engine.connect() as connection:
        return await connection.run_sync(_in_transaction, step)


def _in_transaction(connection: Connection, step: Callable[[Connection], T]) -> T:
    with connection.begin():
        return step(connection)


async def finish_despite_cancellation(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end even when the caller is cancelled meanwhile; then the cancellation goes on.

    Use it around work that must not be torn in the middle: COMMIT, ROLLBACK, closing, one store step.
    `work` runs in a task of its own. When the caller was cancelled, CancelledError is raised after the
    end of `work`, whatever its result; an error of `work` is then its context.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is None:
        return task.result()
    failure = None if task.cancelled() else task.exception()
    raise cancellation from failure
