"""One asyncio run that ends even when a task of the application does not."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


def run_to_its_end(work: Coroutine[Any, Any, T], *, patience_seconds: float = 5.0) -> T:
    """As `asyncio.run`, which waits without end for a task that ignores its cancellation.

    Here such a task is left behind after `patience_seconds`, and its event loop stays open: the process is
    about to end.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        if runner.run(_all_end(patience_seconds)):
            runner.close()


async def _all_end(patience_seconds: float) -> bool:
    """Cancel all other tasks; whether they have ended in time."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if not others:
        return True
    _done, stuck = await asyncio.wait(others, timeout=patience_seconds)
    if stuck:
        names = ", ".join(sorted({task.get_name() for task in stuck}))
        _log.warning("left behind, since it ignores its cancellation: %s", names)
    return not stuck
