"""The handlers of jobs, by name and version."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from jobs.execution.errors import DuplicateJobHandlerError, JobHandlerError
from jobs.execution.handler import JobHandler, kind_of_function
from jobs.execution.retry_policy import RetryPolicy

F = TypeVar("F", bound=Callable[..., Any])


class JobRegistry:
    """The handlers of one module or application; nothing else is ever run for a job.

    timeout_seconds, retry: for those handlers that name none of their own; None for no limit and no retry.
    """

    def __init__(self, *, timeout_seconds: float | None = None, retry: RetryPolicy | None = None) -> None:
        self._timeout_seconds = timeout_seconds
        self._retry = retry
        self._handlers: dict[tuple[str, int], JobHandler] = {}

    def handler(
        self,
        name: str,
        *,
        version: int = 1,
        transactional: bool = False,
        timeout_seconds: float | None = None,
        retry: RetryPolicy | None = None,
        requeue_interrupted: bool = True,
    ) -> Callable[[F], F]:
        """Decorate the function that runs jobs of this name and version; returns it unchanged.

        `async def handler(context)` runs on the event loop, `def handler(context)` in a thread. With
        `transactional`, `async def handler(context, unit)` gets an open unit of work, and what it writes and
        enqueues commits together with the success of the job, under its token: exactly once. What is
        returned, a text or None, is kept as the result reference. requeue_interrupted: whether a job runs
        again, if it has attempts left, when its executor was stopped or died in the middle.

        Raises DuplicateJobHandlerError, JobHandlerError, JobSubmissionError or ValueError.
        """
        if not isinstance(name, str):
            raise JobHandlerError('a handler needs a name: @registry.handler("invoices.render")')

        def register(function: F) -> F:
            self.add(
                JobHandler(
                    name=name,
                    version=version,
                    kind=kind_of_function(function, name=name, transactional=transactional),
                    function=function,
                    timeout_seconds=self._timeout_seconds if timeout_seconds is None else timeout_seconds,
                    retry=self._retry if retry is None else retry,
                    requeue_interrupted=requeue_interrupted,
                )
            )
            return function

        return register

    def add(self, handler: JobHandler) -> None:
        """Register `handler`. Raises DuplicateJobHandlerError."""
        if handler.key in self._handlers:
            raise _duplicate(handler)
        self._handlers[handler.key] = handler

    def __iter__(self) -> Iterator[JobHandler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)


def handlers_of(registries: Iterable[JobRegistry]) -> Mapping[tuple[str, int], JobHandler]:
    """The handlers of all registries by name and version. Raises DuplicateJobHandlerError."""
    handlers: dict[tuple[str, int], JobHandler] = {}
    for registry in registries:
        for handler in registry:
            if handler.key in handlers:
                raise _duplicate(handler)
            handlers[handler.key] = handler
    return handlers


def _duplicate(handler: JobHandler) -> DuplicateJobHandlerError:
    return DuplicateJobHandlerError(
        f"there is a handler {handler.name}, version {handler.version}, already; when arguments or meaning "
        "change, register the new one as another version"
    )
