"""What an attempt died of, in words that may be stored and logged: never the payload."""

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.exc import StatementError

from inbox.error_code import ErrorCode
from inbox.errors import ProcessingTimeoutError
from uow.errors import LookAtItError, SelfManagedError
from uow.message import Message
from uow.outcome import Reject, RetryAfter
from uow.text import clean_text

DETAIL_UNITS: Final = 1000
_OUTER_FRAMES: Final = 8
_INNER_FRAMES: Final = 3
_HERE: Final = str(Path(__file__).parent)
_QUOTE_THEIR_INPUT: Final = frozenset({"pydantic", "pydantic_core", "msgspec"})


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
    cause = _single(error)
    kind, detail = class_path(cause), _detail(cause, message)
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


def class_path(error: BaseException) -> str:
    """Module and class of an exception."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def frames_of(error: BaseException) -> str:
    """Where it was raised: files, lines and source, the innermost last; none of its text.

    Of a timeout, or of another error of ours that something else caused, where that was: there the handler
    stood. Begins at the handler; of a deep stack the beginning and the end.
    """
    frames = traceback.extract_tb(_first_cause(_single(error)).__traceback__)
    while len(frames) > 1 and frames[0].filename.startswith(_HERE):
        del frames[0]
    lines = frames.format()
    if len(lines) > _OUTER_FRAMES + _INNER_FRAMES:
        lines[_OUTER_FRAMES:-_INNER_FRAMES] = ["  ...\n"]
    return "".join(lines).rstrip()


def _first_cause(error: BaseException) -> BaseException:
    """What an error of ours was raised from; any other error is its own."""
    cause = error
    while isinstance(error, SelfManagedError) and cause.__cause__ is not None:
        cause = _single(cause.__cause__)
    return cause


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _detail(error: BaseException, message: Message) -> str:
    kind, text = class_path(error), _text(error).replace(message.payload, "[payload]")
    return clean_text(f"{kind}: {text}" if text else kind, units=DETAIL_UNITS)


def _text(error: BaseException) -> str:
    """Its message, unless it is of a kind that quotes statements, rows or input."""
    if isinstance(error, StatementError):
        return "" if error.orig is None else f"{class_path(error.orig)} {_state(error.orig)}".rstrip()
    if type(error).__module__.partition(".")[0] in _QUOTE_THEIR_INPUT:
        return ""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the failure; its class is told
        return ""


def _state(driver_error: BaseException) -> str:
    code = getattr(driver_error, "sqlstate", None)
    if code is None and driver_error.args and isinstance(driver_error.args[0], int):
        code = driver_error.args[0]
    return "" if code is None else f"({code})"
