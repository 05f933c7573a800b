"""What does the work of a schedule."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from jobs.schedule.declaring.result import ScheduleResult
from jobs.schedule.hosting.context import ScheduleContext
from uow.errors import FixTheCodeError
from uow.handler_function import check_call, is_async

ScheduleFunction: TypeAlias = Callable[[ScheduleContext], Awaitable[ScheduleResult | None]]


class ScheduleExecutorError(FixTheCodeError):
    """Something cannot be the executor of a schedule; the text says why."""


class ScheduleExecutor(Protocol):
    """Does the work of a schedule, again when it is asked again: one slot may come more than once."""

    async def execute(self, context: ScheduleContext, /) -> ScheduleResult | None:
        """Do it. A failure of the business that may happen is returned; None is a success.

        Exceptions and cancellation go on up.
        """
        ...


@dataclass(frozen=True, slots=True)
class FunctionExecutor:
    """An `async def function(context)` as an executor."""

    function: ScheduleFunction

    async def execute(self, context: ScheduleContext, /) -> ScheduleResult | None:
        """Call the function."""
        return await self.function(context)


def executor_of(work: object) -> ScheduleExecutor:
    """The executor that `work` is, or that calls it: an object with `async def execute(context)`, a function.

    Raises ScheduleExecutorError for anything else.
    """
    if isinstance(work, type):
        raise ScheduleExecutorError("is a class; give an object of it")
    execute: Any = getattr(work, "execute", None)
    called, told = (work, "function") if execute is None else (execute, "execute")
    if not callable(called):
        raise ScheduleExecutorError(
            "must be an `async def function(context)` or an object with `async def execute(context)`, "
            f"not {type(work).__name__}"
        )
    if not is_async(called):
        raise ScheduleExecutorError(
            "must be `async def` and must not yield; run blocking work with `await asyncio.to_thread(...)`"
        )
    try:
        check_call(called, 1)
    except TypeError as error:
        raise ScheduleExecutorError(f"is called as {told}(context), but {error}") from error
    if execute is None:
        return FunctionExecutor(cast("ScheduleFunction", work))
    return cast("ScheduleExecutor", work)
