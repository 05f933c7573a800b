"""Logging of the command line: short lines for people, JSON for programs; never a payload or a password."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from rich.console import Console
from rich.text import Text

from relay.cli.harmless_text import harmless
from uow.secret import describe_error, mask_secrets

_INDENT: Final = "\n" + 17 * " "
"""Of the further lines of a message, so that none of them looks like an entry of its own."""
_LEVEL_STYLES: Final = {"WARNING": "yellow", "ERROR": "bold red", "CRITICAL": "bold red", "DEBUG": "dim"}


def configure_logging(level: str, console: Console, *, json: bool) -> None:
    """Send log lines to stderr, unless the application has configured logging while it was imported.

    For people they go through `console`, so that they do not tear a progress bar that it draws.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = _JsonHandler() if json else _PeopleHandler(console)
    root.addHandler(handler)
    root.setLevel(level)


def exception_text(error: BaseException) -> str:
    """A traceback, the first cause first; errors in words without statement, parameters and passwords."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < 8:
        frames = "".join(traceback.format_tb(current.__traceback__))
        parts.append(mask_secrets(f"{frames}{describe_error(current)}"))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\nwhich led to:\n".join(reversed(parts))


class _JsonHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_secrets(record.getMessage()),
        }
        if record.exc_info and record.exc_info[1]:
            entry["exception"] = exception_text(record.exc_info[1])
        sys.stderr.write(orjson.dumps(entry, option=orjson.OPT_UTC_Z).decode() + "\n")
        sys.stderr.flush()


class _PeopleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        moment = datetime.fromtimestamp(record.created).astimezone()
        line = Text(f"{moment:%H:%M:%S} ", style="dim")
        line.append(f"{record.levelname.lower():<8}", style=_LEVEL_STYLES.get(record.levelname, ""))
        line.append(harmless(mask_secrets(record.getMessage()), lines=True).replace("\n", _INDENT))
        self._console.print(line, soft_wrap=True, highlight=False)
        if record.exc_info and record.exc_info[1]:
            text = harmless(exception_text(record.exc_info[1]), lines=True)
            self._console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)
