"""Three stages at once: while one batch is sent, the next is claimed and the last is settled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")


async def run_pipeline(
    first: Batch,
    *,
    claim: Callable[[], Coroutine[Any, Any, Batch | None]],
    send: Callable[[Batch], Coroutine[Any, Any, Result]],
    settle: Callable[[Batch, Result], Coroutine[Any, Any, None]],
) -> None:
    """Work on `first` and on what `claim` brings after it, until it brings None and all is settled.

    At most three batches are in hand. After an error of one stage nothing more is claimed, what is in
    hand goes through its stages, and then the first error is raised. Cancellation cancels all stages.
    """
    batch: Batch | None = first
    sent: tuple[Batch, Result] | None = None
    failure: BaseException | None = None
    while batch is not None or sent is not None:
        result, following, settled = await asyncio.gather(
            _nothing() if batch is None else send(batch),
            _nothing() if batch is None or failure is not None else claim(),
            _nothing() if sent is None else settle(*sent),
            return_exceptions=True,
        )
        for outcome in (result, following, settled):
            if isinstance(outcome, BaseException):
                failure = failure or outcome
        sent = None
        if batch is not None and result is not None and not isinstance(result, BaseException):
            sent = (batch, result)
        batch = None if isinstance(following, BaseException) else following
    if failure is not None:
        raise failure


async def _nothing() -> None:
    return None
