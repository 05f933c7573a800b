"""What an attempt died of, in words that may be stored and logged: never the payload."""

from dataclasses import dataclass
from typing import Final

from inbox.error_code import ErrorCode
from inbox.errors import ProcessingTimeoutError
from uow.errors import LookAtItError
from uow.failure_text import DETAIL_UNITS, class_path, failure_detail, single_cause
from uow.message import Message
from uow.outcome import Reject, RetryAfter
from uow.text import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt did not succeed.

    kind: the class of the exception, empty when there was none. permanent: no retry can help.
    delay_seconds: when the handler wishes the next attempt; None leaves it to the back-off.
    """

    code: ErrorCode
    detail: str
    kind: str = ""
    permanent: bool = False
    delay_seconds: float | None = None


PROCESS_DIED: Final = Failure(
    code=ErrorCode.PROCESS_DIED,
    detail="the process died, or lost the receipt, before any of the last attempts ended",
    permanent=True,
)
COMMIT_LOST: Final = Failure(
    code=ErrorCode.DATABASE_LOST,
    detail="the connection was lost during the commit, which did not happen",
)


def failure_of_handler(error: BaseException, message: Message) -> Failure:
    """What it means that an attempt at `message` ended in `error`.

    A group with a single exception in it (a TaskGroup of which one child failed) counts as that exception.
    """
    cause = single_cause(error)
    kind, detail = class_path(cause), failure_detail(cause, handler_input=message.payload)
    match cause:
        case Reject():
            return Failure(code=ErrorCode.REJECTED, kind=kind, detail=detail, permanent=True)
        case RetryAfter():
            delay = cause.delay_seconds
            return Failure(code=ErrorCode.RETRY_AFTER, kind=kind, detail=detail, delay_seconds=delay)
        case ProcessingTimeoutError():
            return Failure(code=ErrorCode.TIMEOUT, kind=kind, detail=detail)
        case _:
            return Failure(code=ErrorCode.HANDLER_ERROR, kind=kind, detail=detail)


def failure_of_contract(error: LookAtItError) -> Failure:
    """What it means that a message cannot be read here; errors of ours never repeat a payload."""
    detail = clean_text(str(error), units=DETAIL_UNITS)
    return Failure(code=ErrorCode.CONTRACT, kind=class_path(error), detail=detail, permanent=True)
