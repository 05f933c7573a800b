"""Loops that never die without a word: an unexpected error is logged and counted, and the loop runs again."""

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from uow.backoff import Backoff
from uow.errors import TryAgainError
from uow.secret import describe_error
from uow.sql.fault import is_transient

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_PAUSES: Final = Backoff(initial_seconds=0.25, maximum_seconds=5.0, jitter=0.3)
_CALM_SECONDS: Final = 30.0


@dataclass(slots=True, kw_only=True)
class LoopHealth:
    """How one loop stands; written by the loop, read by health checks. Times are `time.monotonic()`.

    last_tick: when it last finished a round. failing_since: since when no round has succeeded, if so.
    restarts: how often an error ended it and it was begun anew. last_error: class of the latest error.
    """

    name: str
    running: bool = False
    last_tick: float | None = None
    failing_since: float | None = None
    restarts: int = 0
    last_error: str | None = None

    def tick(self) -> None:
        """A round has succeeded."""
        self.last_tick = time.monotonic()
        self.failing_since = None

    def fail(self, error: BaseException) -> None:
        """A round has failed."""
        self.restarts += 1
        self.last_error = type(error).__name__
        if self.failing_since is None:
            self.failing_since = time.monotonic()


class StopRequest:
    """Tells the loops of one service to end; a loop that sleeps hears of it at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def requested(self) -> bool:
        """Whether the service is stopping."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask for the stop; asking again changes nothing."""
        self._event.set()

    async def sleep(self, seconds: float) -> bool:
        """Wait `seconds`, or less when a stop is asked for; whether it is."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True

    async def wait(self) -> None:
        """Wait until a stop is asked for."""
        await self._event.wait()


async def unless_stopped(work: Coroutine[Any, Any, T], stop: StopRequest) -> T | None:
    """The result of `work`, or None when a stop was requested first; `work` is then cancelled."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


async def supervise(
    body: Callable[[], Awaitable[None]], health: LoopHealth, stop: StopRequest, *, pauses: Backoff = _PAUSES
) -> None:
    """Run `body` until it returns; after an error, run it again with a growing pause.

    Ends when `body` returns, or at the first error or pause after a stop was requested. Cancellation goes
    through. Errors that an outage explains are logged as one line, others with their traceback.
    """
    failures = 0
    health.running = True
    try:
        while True:
            began = time.monotonic()
            try:
                await body()
            except Exception as error:  # noqa: BLE001 - logged and counted, then the loop goes on
                failures = 1 if time.monotonic() - began > _CALM_SECONDS else failures + 1
                health.fail(error)
                log_failure(health.name, error)
            else:
                return
            if stop.requested or await stop.sleep(pauses.delay_seconds(failures)):
                return
    finally:
        health.running = False


async def run_with_grace(
    work: Coroutine[Any, Any, None],
    stop: StopRequest,
    *,
    grace_seconds: float,
    name: str,
    quiet: bool = False,
) -> None:
    """Await `work`; after a stop request give it `grace_seconds` more, then cancel it.

    Raises what `work` raises; its cancellation at the end of the grace period is no error, and with
    `quiet` not worth a line in the log.
    """
    task = asyncio.create_task(work, name=name)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await asyncio.wait([task], timeout=grace_seconds)
    finally:
        stopping.cancel()
        if not task.done():
            if stop.requested and not quiet:
                _log.warning("%s: cancelled, its work did not end in time", name)
            task.cancel()
            await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def log_failure(name: str, error: BaseException) -> None:
    """One line for an outage, the traceback for anything else; never a statement's parameters."""
    if is_outage(error):
        _log.warning("%s: waits for an outage to end (%s)", name, describe_error(error))
    else:
        frames = "".join(traceback.format_tb(error.__traceback__))
        _log.error("%s: failed and will run again: %s\n%s", name, describe_error(error), frames)


def is_outage(error: BaseException) -> bool:
    """Whether a server that is away, restarting or overloaded explains `error`."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_outage(each) for each in error.exceptions)
    kinds = (OperationalError, InterfaceError, PoolTimeoutError, TryAgainError, OSError)
    return isinstance(error, kinds) or is_transient(error)
