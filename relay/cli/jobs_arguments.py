"""The arguments of a job that is submitted by hand: from the command line, a file or stdin."""

import sys
from pathlib import Path
from typing import BinaryIO, Final

import typer

from jobs.submission import ARGUMENT_BYTES

_STDIN: Final = Path("-")


def read_arguments(given: str | None, file: Path | None) -> str | None:
    """The text of either, without white space around it; None when neither is given.

    Raises typer.BadParameter for both, and for a file that cannot be read, is too long or is not UTF-8.
    """
    if given is not None and file is not None:
        raise typer.BadParameter("give --arguments or --arguments-file, not both")
    if file is None:
        return None if given is None else given.strip()
    if file == _STDIN:
        return _text(sys.stdin.buffer)
    try:
        with file.open("rb") as opened:
            return _text(opened)
    except OSError as error:
        rule = f"{str(file)!r} cannot be read: {error.strerror}"
        raise typer.BadParameter(rule, param_hint="'--arguments-file'") from None


def _text(stream: BinaryIO) -> str:
    content = stream.read(ARGUMENT_BYTES + 1)
    try:
        if len(content) <= ARGUMENT_BYTES:
            return content.decode("utf-8-sig").strip()
        rule = f"is longer than {ARGUMENT_BYTES} bytes"
    except UnicodeDecodeError as error:
        rule = f"is not UTF-8: {error.reason} at byte {error.start}"
    raise typer.BadParameter(rule, param_hint="'--arguments-file'")
