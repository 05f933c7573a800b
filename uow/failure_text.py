"""What a handler died of, in words that may be stored and logged: never its input."""

import traceback
from pathlib import Path
from typing import Final

from sqlalchemy.exc import StatementError

from uow.errors import SelfManagedError
from uow.text import clean_text

DETAIL_UNITS: Final = 1000
_OUTER_FRAMES: Final = 8
_INNER_FRAMES: Final = 3
_QUOTE_THEIR_INPUT: Final = frozenset({"pydantic", "pydantic_core", "msgspec"})
_TELLS_NOTHING: Final = frozenset({"", "{}", "[]", "null"})
_HERE: Final = str(Path(__file__).parent)


def class_path(error: BaseException) -> str:
    """Module and class of an exception."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def single_cause(error: BaseException) -> BaseException:
    """The exception itself; of a group with one in it (a TaskGroup of which one child failed) that one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def failure_detail(error: BaseException, *, handler_input: str) -> str:
    """Class and message, at most 1000 UTF-16 units, without what quotes statements, rows or the input."""
    kind, text = class_path(error), _text(error)
    if handler_input not in _TELLS_NOTHING:
        text = text.replace(handler_input, "[payload]")
    return clean_text(f"{kind}: {text}" if text else kind, units=DETAIL_UNITS)


def frames_of(error: BaseException, *, handlers_are_called_in: str) -> str:
    """Where it was raised: files, lines and source, the innermost last; none of its text.

    Of a timeout, or of another error of ours that something else caused, where that was: there the handler
    stood. Leaves out the frames down to the last call from the folder from which handlers are called; of a
    deep stack shows the beginning and the end.
    """
    frames = traceback.extract_tb(_first_cause(single_cause(error)).__traceback__)
    del frames[: _frames_of_the_call(frames, handlers_are_called_in)]
    lines = frames.format()
    if len(lines) > _OUTER_FRAMES + _INNER_FRAMES:
        lines[_OUTER_FRAMES:-_INNER_FRAMES] = ["  ...\n"]
    return "".join(lines).rstrip()


def folder_of(file: str) -> str:
    """The folder of a module, for `frames_of(handlers_are_called_in=folder_of(__file__))`."""
    return str(Path(file).parent)


def _frames_of_the_call(frames: traceback.StackSummary, called_in: str) -> int:
    """How many frames, of all but the innermost, call the handler; some do so through a unit of work."""
    calls = 0
    for position, frame in enumerate(frames[:-1], start=1):
        if frame.filename.startswith(called_in):
            calls = position
        elif not frame.filename.startswith(_HERE):
            break
    return calls


def _first_cause(error: BaseException) -> BaseException:
    """What an error of ours was raised from; any other error is its own."""
    cause = error
    told: list[BaseException] = []  # `raise error from error` is a circle
    while isinstance(error, SelfManagedError) and cause.__cause__ is not None and cause not in told:
        told.append(cause)
        cause = single_cause(cause.__cause__)
    return cause


def _text(error: BaseException) -> str:
    """Its message, unless it is of a kind that quotes statements, rows or input."""
    if isinstance(error, StatementError):
        return "" if error.orig is None else f"{class_path(error.orig)} {_state(error.orig)}".rstrip()
    if type(error).__module__.partition(".")[0] in _QUOTE_THEIR_INPUT:
        return ""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a broken __str__ must not hide the failure; its class is told
        return ""


def _state(driver_error: BaseException) -> str:
    code = getattr(driver_error, "sqlstate", None)
    if code is None and driver_error.args and isinstance(driver_error.args[0], int):
        code = driver_error.args[0]
    return "" if code is None else f"({code})"
