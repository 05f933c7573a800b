"""What running jobs raises and refuses, by who must act."""

from jobs.execution.stop_reason import StopReason
from uow.errors import FixTheCodeError, LookAtItError, TryAgainError


class JobHandlerError(FixTheCodeError):
    """A function cannot be the handler of a job as it is declared; the text says why."""


class DuplicateJobHandlerError(FixTheCodeError):
    """Two handlers are declared for one name and version; give the newer one a version of its own."""


class JobArgumentsError(LookAtItError):
    """The arguments of a job are not what its handler reads; no retry can help."""


class JobResultError(FixTheCodeError):
    """A handler returned something other than a text or None: a result reference says where a result is."""


class JobTimeoutError(TryAgainError, TimeoutError):
    """A handler took longer than its timeout."""


class AttemptStoppedError(TryAgainError):
    """Raised in a thread by `raise_if_stopped`: the attempt is asked to end; `reason` says why."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"the attempt is asked to end: {reason}")
        self.reason = reason

    def __reduce__(self) -> tuple[type["AttemptStoppedError"], tuple[StopReason]]:
        return type(self), (self.reason,)


class JobFailure(Exception):  # noqa: N818 - a verdict of the business, not an error of ours
    """Raise it to end this attempt as failed with a code of the business.

    code: at most 64 UTF-16 units, kept as the job's error code. detail: for people, cut to 1000 units.
    Whether another attempt follows is the retry policy's decision.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or code)
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[type["JobFailure"], tuple[str, str]]:
        return type(self), (self.code, self.detail)
