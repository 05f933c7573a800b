"""One handler of jobs: the function, and how it is to be run."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs.execution.errors import JobHandlerError
from jobs.execution.retry_policy import RetryPolicy
from jobs.submission import MAXIMUM_VERSION, check_name
from uow.handler_function import check_call, is_async
from uow.option_rule import require_seconds, require_whole_number


class HandlerKind(StrEnum):
    """How a handler is called."""

    PLAIN = "plain"
    """`async def handler(context)`."""
    TRANSACTIONAL = "transactional"
    """`async def handler(context, unit)`: its effects and the success of the job are one commit."""
    THREAD = "thread"
    """`def handler(context)`, in a thread of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandler:
    """What is registered for one name and version; see JobRegistry.handler.

    Raises JobSubmissionError, ValueError or JobHandlerError naming the handler and the rule.
    """

    name: str
    version: int
    kind: HandlerKind
    function: Callable[..., Any]
    timeout_seconds: float | None = None
    retry: RetryPolicy | None = None
    requeue_interrupted: bool = True

    def __post_init__(self) -> None:
        check_name("handler", self.name)
        if not isinstance(self.requeue_interrupted, bool):
            raise JobHandlerError(f"handler {self.name}: requeue_interrupted must be True or False")
        require_whole_number(f"version of handler {self.name}", self.version, least=1, most=MAXIMUM_VERSION)
        if self.timeout_seconds is not None:
            require_seconds(f"timeout_seconds of handler {self.name}", self.timeout_seconds)
        if self.retry is not None and not isinstance(self.retry, RetryPolicy):
            told = f"retry must be a RetryPolicy, not {self.retry!r}"
            raise JobHandlerError(f"handler {self.name}, version {self.version}: {told}")
        self._check_signature()

    @property
    def key(self) -> tuple[str, int]:
        """Name and version."""
        return self.name, self.version

    @property
    def task_name(self) -> str:
        """What its tasks and threads are called."""
        return f"job {self.name}"

    def _check_signature(self) -> None:
        names = ("context", "unit") if self.kind is HandlerKind.TRANSACTIONAL else ("context",)
        try:
            check_call(self.function, len(names))
        except TypeError as error:
            raise JobHandlerError(
                f"handler {self.name}, version {self.version}: is called as handler({', '.join(names)}), "
                f"but {error}"
            ) from error


def kind_of_function(function: Callable[..., Any], *, name: str, transactional: bool) -> HandlerKind:
    """How `function` is called. Raises JobHandlerError for what cannot be called so."""
    if not isinstance(transactional, bool):
        raise JobHandlerError(f"handler {name}: transactional must be True or False")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise JobHandlerError(f"handler {name}: must not yield; return the result reference, or nothing")
    if not transactional:
        return HandlerKind.PLAIN if is_async(function) else HandlerKind.THREAD
    if is_async(function):
        return HandlerKind.TRANSACTIONAL
    raise JobHandlerError(
        f"handler {name}: a transactional handler must be `async def`, since its unit of work belongs to "
        "the event loop"
    )
