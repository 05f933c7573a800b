"""Waiting for an observed state, never for a time."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(
    predicate: Callable[[], T | Awaitable[T]], timeout: float = 10.0, *, interval: float = 0.01
) -> T:
    """The first truthy answer of `predicate` (sync or async); fails the test after `timeout` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        answer = predicate()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if loop.time() >= deadline:
            raise AssertionError(f"not so within {timeout} s: {_describe(predicate)}, last answer {value!r}")
        await asyncio.sleep(interval)


def _describe(predicate: Callable[..., object]) -> str:
    try:
        return inspect.getsource(predicate).strip()
    except (OSError, TypeError):
        return repr(predicate)
