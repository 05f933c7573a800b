"""Writing down, in steps of their own, how attempts ended that did not commit."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.failure import Failure
from inbox.options import InboxOptions
from inbox.receipt import AcquiredReceipt
from inbox.store import InboxStore
from inbox.view import LeaseFate
from uow.failure_text import class_path
from uow.sql.fault import is_transient
from uow.sql.step import run_step

T = TypeVar("T")

_STEP_SECONDS: Final = 10.0
_PAUSES_SECONDS: Final = (0.1, 0.3, 1.0, 3.0)

_log: Final = logging.getLogger(__name__)


class Bookkeeper:
    """Ends attempts for one consumer. An outage of a few seconds is bridged; after that the receipt is left
    to its lease, which brings the work back."""

    def __init__(self, engine: AsyncEngine, store: InboxStore, options: InboxOptions) -> None:
        self._engine = engine
        self._store = store
        self._options = options

    async def record(self, receipt: AcquiredReceipt, failure: Failure) -> bool | None:
        """Schedule the next attempt, or dead-letter it; False when the lease was lost, None in an outage."""
        return await self._step(receipt, lambda connection: self._write(connection, receipt, failure))

    async def give_back(self, receipt: AcquiredReceipt) -> LeaseFate | None:
        """Release an attempt that was cut short, so that it does not count; HELD says that it was.

        COMPLETED: its commit had been made before. None in an outage.
        """

        def release(connection: Connection) -> LeaseFate:
            lost = self._store.release(connection, [receipt.lease])
            return self._store.fate(connection, receipt.lease) if lost else LeaseFate.HELD

        return await self._step(receipt, release)

    async def look(self, receipt: AcquiredReceipt, failure: Failure) -> LeaseFate | None:
        """What became of a commit of unknown outcome; `failure` is recorded when it did not happen (HELD).

        None in an outage: then whoever takes the receipt next will see what it is.
        """

        def resolve(connection: Connection) -> LeaseFate:
            fate = self._store.fate(connection, receipt.lease)
            if fate is LeaseFate.HELD and not self._write(connection, receipt, failure):
                return LeaseFate.LOST
            return fate

        return await self._step(receipt, resolve)

    def is_last(self, receipt: AcquiredReceipt, failure: Failure) -> bool:
        """Whether no further attempt follows."""
        return failure.permanent or receipt.attempt > self._options.max_retry_attempts

    def _write(self, connection: Connection, receipt: AcquiredReceipt, failure: Failure) -> bool:
        code, detail = failure.code.value, failure.detail
        if self.is_last(receipt, failure):
            return self._store.dead_letter(connection, receipt.lease, error_code=code, error_detail=detail)
        delay_seconds = failure.delay_seconds
        if delay_seconds is None:
            delay_seconds = self._options.backoff.delay_seconds(receipt.attempt)
        return self._store.fail(
            connection, receipt.lease, error_code=code, error_detail=detail, delay_seconds=delay_seconds
        )

    async def _step(self, receipt: AcquiredReceipt, step: Callable[[Connection], T]) -> T | None:
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                return await run_step(self._engine, step, limit_seconds=_STEP_SECONDS)
            except Exception as error:  # noqa: BLE001 - logged; the lease brings the work back
                if pause_seconds is None or not _may_pass(error):
                    _log.warning(
                        "consumer %s, message %s: the receipt could not be written (%s); left to its lease",
                        receipt.consumer,
                        receipt.message.id,
                        class_path(error),
                    )
                    return None
            await asyncio.sleep(pause_seconds)
        return None


async def to_the_end(work: Coroutine[Any, Any, T]) -> tuple[T, asyncio.CancelledError | None]:
    """The result of `work`, which a cancellation of the caller does not touch, and that cancellation."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    return task.result(), cancellation


def _may_pass(error: BaseException) -> bool:
    """Whether the database may be there again in a moment."""
    return is_transient(error) or isinstance(error, OSError | TimeoutError)
