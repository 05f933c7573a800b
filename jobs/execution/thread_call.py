"""Calling a handler in a thread of its own."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import Any


async def call_in_thread(function: Callable[..., Any], context: Any, *, name: str) -> Any:
    """What `function(context)` returns or raises; the context variables of the caller are in force there.

    The thread is a daemon, not one of a pool: one that hangs holds up neither the end of the process nor
    another handler.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    variables = contextvars.copy_context()

    def work() -> None:
        tell: Callable[[], None]
        try:
            tell = partial(_set_result, ended, variables.run(function, context))
        except BaseException as error:  # noqa: BLE001 - raised again where the handler is awaited
            tell = partial(_set_error, ended, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await ended


def _set_result(ended: asyncio.Future[Any], result: Any) -> None:
    if not ended.done():
        ended.set_result(result)


def _set_error(ended: asyncio.Future[Any], error: BaseException) -> None:
    if not ended.done():
        # A future cannot hold the first, and the others would end the event loop.
        if isinstance(error, StopIteration | KeyboardInterrupt | GeneratorExit):
            error = RuntimeError(f"the handler raised {type(error).__name__}")
        ended.set_exception(error)
