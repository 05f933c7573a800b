"""What a handler on the event loop is given."""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, TypeAlias

from jobs.answer import ProgressAnswer
from jobs.execution.arguments import read_arguments, read_arguments_as
from jobs.execution.stop_reason import StopReason
from jobs.key import AttemptReference
from jobs.progress import check_percent
from jobs.snapshot import StartedJob
from uow.ticks import UtcInstant

Report: TypeAlias = Callable[[int, str | None], Awaitable[ProgressAnswer]]


class AttemptFacts:
    """One attempt, as its handler sees it: which job, the how manieth attempt, with what arguments."""

    def __init__(self, job: StartedJob) -> None:
        self._job = job
        self._stop_reason: StopReason | None = None

    @property
    def reference(self) -> AttemptReference:
        """The identity of this attempt, with its token."""
        return self._job.reference

    @property
    def job_id(self) -> str:
        """The id of the job within its scope."""
        return self._job.reference.job_id

    @property
    def scope_hash(self) -> bytes:
        """The digest of the scope, which itself is not stored: put what you need of it in the arguments."""
        return self._job.reference.scope_hash

    @property
    def attempt(self) -> int:
        """1 for the first attempt of the job."""
        return self._job.reference.ordinal

    @property
    def attempts_left(self) -> int:
        """How many may follow this one."""
        return self._job.attempts_left

    @property
    def handler(self) -> tuple[str, int]:
        """Name and version."""
        return self._job.handler, self._job.handler_version

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self._job.queue

    @property
    def created(self) -> UtcInstant:
        """When the job was submitted."""
        return self._job.created

    @property
    def correlation_id(self) -> str | None:
        """That of the submission; what is enqueued or staged here carries it on."""
        return self._job.correlation_id

    @property
    def arguments_json(self) -> str:
        """The arguments as the exact JSON text of the submission."""
        return self._job.arguments

    @cached_property
    def arguments(self) -> Any:
        """The arguments as the values of their JSON, read at the first look; integers of any size."""
        return read_arguments(self._job.arguments)

    def arguments_as(self, kind: type[Any]) -> Any:
        """The arguments as a dataclass, a TypedDict or anything else that msgspec can make.

        Raises JobArgumentsError, which no retry mends, when they do not fit.
        """
        return read_arguments_as(kind, self._job.arguments)

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the attempt is asked to end; None while it may go on."""
        return self._stop_reason

    def begin_anew(self) -> None:
        """For the executor: the handler is called again, and reads arguments that it has not changed."""
        self.__dict__.pop("arguments", None)

    def mark_stopped(self, reason: StopReason) -> None:
        """For the executor: the attempt is asked to end."""
        self._stop_reason = reason


class JobContext(AttemptFacts):
    """What `async def handler(context)` is given.

    When the attempt is asked to end, its handler gets a CancelledError at its next `await`, once; what it
    then does to clean up is awaited. `stop_reason` says why. A handler that goes on and succeeds has
    succeeded, unless the cancellation of the job was committed first.
    """

    def __init__(self, job: StartedJob, report: Report) -> None:
        super().__init__(job)
        self._report = report

    async def progress(self, percent: int, message: str | None = None) -> ProgressAnswer:
        """Record how far the attempt is: 0 to 100, never lower than before; 100 does not end it.

        `message` is cut to 1000 UTF-16 units. Each call is a small commit of its own; an outage of the
        database raises, so do not report for each row. Raises ValueError for another percentage.
        """
        check_percent(percent)
        return await self._report(percent, message)
