"""The call that wakes loops after a commit: in this process, and in others through PostgreSQL."""

import asyncio
import contextlib
import logging
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from uow.sql.dialect import database_of
from uow.sql.sibling import sibling_engine
from uow.wake import WakeSignal

OUTBOX_CHANNEL: Final = "selfmanaged_outbox"
"""Notified when there may be something to publish."""
INBOX_CHANNEL: Final = "selfmanaged_inbox"
"""Notified when a relay has handed events over to the inbox of the same database."""
JOBS_CHANNEL: Final = "selfmanaged_jobs"
"""Notified when a job was queued."""

_log: Final = logging.getLogger(__name__)
_CLOSE_SECONDS: Final = 2.0


class CommitSignal:
    """Call it after a commit; it wakes the waiters of this process and the listeners of other ones.

    The call does no I/O, never waits and never fails. Other processes are told by NOTIFY where the
    database has it, sent by a background task on a connection of its own: PostgreSQL lets only one
    transaction that notifies commit at a time, so a business transaction must not. All calls within
    `gap_seconds` become one NOTIFY. One that gets lost (an outage, a process that ends) costs latency,
    never an event or a job, since all loops poll besides. Await `close` at the end of the process.
    """

    def __init__(
        self, engine: AsyncEngine, *, channel: str = OUTBOX_CHANNEL, gap_seconds: float = 0.02
    ) -> None:
        self.local = WakeSignal()
        self._engine = engine
        self._channel = channel
        self._gap_seconds = gap_seconds
        self._notifies = database_of(engine).notify
        self._calls = 0
        self._told = 0
        self._sibling: AsyncEngine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    def __call__(self) -> None:
        """Wake the waiters here, and soon those elsewhere."""
        self.local()
        if not self._notifies:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a thread without a loop: other processes will poll
            return
        self._calls += 1
        if self._sibling is None or loop is not self._loop:
            self._sibling = self._move_to(loop)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._tell(self._sibling), name=f"notify {self._channel}")

    async def close(self) -> None:
        """Send what is still to be told, within two seconds, and close the connection."""
        if self._task is not None and self._loop is asyncio.get_running_loop():
            task, self._task = self._task, None
            await asyncio.wait([task], timeout=_CLOSE_SECONDS)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._sibling is not None:
            sibling, self._sibling = self._sibling, None
            await sibling.dispose()
        self._loop = None

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> AsyncEngine:
        if self._sibling is not None:  # its connection belongs to a loop that is gone
            self._sibling.sync_engine.dispose(close=False)
        self._loop, self._task = loop, None
        return sibling_engine(self._engine).execution_options(isolation_level="AUTOCOMMIT")

    async def _tell(self, sibling: AsyncEngine) -> None:
        while self._told != self._calls:
            self._told = self._calls
            await self._notify(sibling)
            await asyncio.sleep(self._gap_seconds)

    async def _notify(self, sibling: AsyncEngine) -> None:
        try:
            async with sibling.connect() as connection:
                await connection.execute(select(func.pg_notify(self._channel, "")))
        except (SQLAlchemyError, OSError):
            if not self._failing:
                _log.warning("cannot notify other processes; they find new work by polling", exc_info=True)
            self._failing = True
        else:
            self._failing = False
