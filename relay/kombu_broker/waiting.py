"""Waiting in asyncio for what a thread does, without a pool of threads in between."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def finish(done: Future[None]) -> None:
    """Called by the thread, any number of times."""
    if not done.done():
        done.set_result(None)


async def finished(done: Future[None], timeout_seconds: float) -> bool:
    """Whether the thread called `finish` within the time; a cancelled waiter changes nothing."""
    await asyncio.wait([asyncio.wrap_future(done)], timeout=timeout_seconds)
    return done.done()


async def in_thread(name: str, work: Callable[[], T]) -> T:
    """What `work` returns or raises, run in a thread of its own, which a cancelled caller leaves behind.

    A pool could be full of other people's work, and the interpreter would wait for it at its end.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is handed to the caller
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.shield(asyncio.wrap_future(outcome))
