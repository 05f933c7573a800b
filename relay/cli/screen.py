"""What the command line shows: tables for people, one JSON document for programs, errors on stderr."""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from relay.cli.exit_code import ExitCode
from relay.cli.harmless_text import harmless

_PIPE_WIDTH: Final = 100_000
_GAP: Final = 2


class Screen:
    """Where one command writes. With `json` stdout gets exactly one JSON document and stderr JSON lines.

    Texts are never read as markup, and what could steer a terminal is shown as its escape.
    """

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    @property
    def animated(self) -> bool:
        """Whether someone watches, so that progress may be drawn."""
        return self._err.is_terminal and not self.json

    @property
    def live(self) -> bool:
        """Whether someone watches both outputs, so that a bar may stand for lines of the result."""
        return self.animated and self._out.is_terminal

    @property
    def error_console(self) -> Console:
        """The console on stderr; what is drawn and what is logged must share it."""
        return self._err

    def document(self, value: Any) -> None:
        """The result for programs; nothing without `--json`."""
        if self.json:
            sys.stdout.write(orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z).decode() + "\n")
            sys.stdout.flush()

    def line(self, text: str, *, style: str = "") -> None:
        """One line of the result for people; nothing with `--json`."""
        if not self.json:
            self._print(self._out, text, style)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: Sequence[str] = ()
    ) -> None:
        """A table for people; the `whole` columns are never cut or wrapped, so that they can be copied.

        Where the terminal is too narrow for that, each row becomes two lines.
        """
        if self.json or not rows:
            return
        texts = [["" if cell is None else harmless(str(cell)) for cell in row] for row in rows]
        widths = [max(map(cell_len, cells)) for cells in zip(columns, *texts, strict=True)]
        if whole and sum(widths) + _GAP * len(widths) > self._out.width:
            self._records(columns, rows)
            return
        drawn = Table(box=None, pad_edge=False, show_header=any(columns), header_style="bold")
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
            number = all(isinstance(cell, int) for cell in cells)
            drawn.add_column(
                column, justify="right" if number else "left", no_wrap=column in whole, overflow="fold"
            )
        for text in texts:
            drawn.add_row(*map(Text, text))
        self._out.print(drawn)

    def _records(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        for head, *cells in rows:
            self._print(self._out, harmless(str(head)), "bold")
            named = zip(columns[1:], cells, strict=True)
            told = [f"{name.lower()} {cell}" if isinstance(cell, int) else cell for name, cell in named]
            line = "  ".join(harmless(str(each)) for each in told if each)
            self._out.print(f"  {line}", markup=False, highlight=False)

    def note(self, text: str, *, style: str = "dim") -> None:
        """A remark beside the result, on stderr; nothing with `--json`."""
        if not self.json:
            self._print(self._err, text, style)

    def _print(self, console: Console, text: str, style: str) -> None:
        shown = harmless(text, lines=True)
        console.print(shown, style=style, markup=False, highlight=False, soft_wrap=True)

    def error(self, code: ExitCode, text: str) -> None:
        """Why the command failed, on stderr; with `--json` as one JSON object."""
        if self.json:
            problem = {"error": code.name.lower(), "exit_code": int(code), "message": text}
            sys.stderr.write(orjson.dumps(problem).decode() + "\n")
            return
        first, _, rest = harmless(text, lines=True).partition("\n")
        self._err.print(f"[bold red]error:[/] {escape(first)}", highlight=False, soft_wrap=True)
        if rest:
            self._err.print(rest, markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def progress(self, title: str, total: int | None) -> Iterator["ProgressBar"]:
        """A bar on stderr while the block runs, when someone watches; it leaves nothing behind."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with self.bars(*columns) as progress:
            task = progress.add_task(title, total=total)
            yield ProgressBar(lambda **changes: progress.update(task, **changes))

    def bars(self, *columns: ProgressColumn) -> Progress:
        """Bars of these columns on stderr, when someone watches; as a context manager."""
        return Progress(*columns, console=self._err, transient=True, disable=not self.animated)


class ProgressBar:
    """Moves one bar."""

    def __init__(self, update: Any) -> None:
        self._update = update

    def show(self, done: int, total: int | None) -> None:
        """So many of so many."""
        self._update(completed=done, total=total)


def as_rows(values: Mapping[str, object]) -> list[tuple[str, object]]:
    """A mapping as two-column rows, without what is None."""
    return [(name, value) for name, value in values.items() if value is not None]


class _Console(Console):
    """A console that makes no picture of `:key:`, and leaves a reader who goes away to `run_command`."""

    def __init__(self, stream: Any, *, width: int | None = None) -> None:
        super().__init__(file=stream, width=width, emoji=False)

    def on_broken_pipe(self) -> None:
        """Raise what the write raised, instead of ending the process."""
        raise BrokenPipeError


def _console(stream: Any) -> Console:
    console = _Console(stream)
    return console if console.is_terminal else _Console(stream, width=_PIPE_WIDTH)
