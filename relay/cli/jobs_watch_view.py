"""A job while it is watched: a bar for who looks, a line for each change in a pipe, an object with --json."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from rich.progress import BarColumn, TextColumn
from rich.table import Column

from jobs.snapshot import JobRecord
from jobs.state import JobState
from relay.cli.failed_view import moment_text
from relay.cli.harmless_text import harmless
from relay.cli.jobs_view import (
    attempt_text,
    error_text,
    instant_text,
    job_document,
    percent_text,
    state_text,
)
from relay.cli.screen import Screen

Show = Callable[[JobRecord], None]
_ID_WIDTH: Final = 40


@contextlib.contextmanager
def watching(screen: Screen) -> Iterator[Show]:
    """What shows the job each time it was looked at; the bar leaves nothing behind."""
    if not screen.live:
        yield _Changes(screen).show
        return
    columns = [
        _text("{task.description}"),
        BarColumn(complete_style="green"),
        _text("{task.fields[standing]}"),
    ]
    with screen.bars(*columns) as bars:
        task = bars.add_task("", total=100, standing="")
        yield lambda job: bars.update(
            task,
            description=harmless(job.job_id)[:_ID_WIDTH],
            completed=job.progress_percent or 0,
            standing=standing_text(job),
        )


def standing_text(job: JobRecord) -> str:
    """How a job stands, in one line fit for a terminal."""
    parts = [
        state_text(job),
        attempt_text(job),
        percent_text(job.progress_percent),
        job.progress_message,
        f"due {instant_text(job.next_run)}" if job.state is JobState.QUEUED else None,
        None if job.result_reference is None else f"result {job.result_reference}",
        error_text(job),
    ]
    return harmless("  ".join(part for part in parts if part))


def _text(template: str) -> TextColumn:
    return TextColumn(template, markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))


class _Changes:
    """Tells a job when it differs from what was told last, heartbeats aside."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._told: dict[str, Any] | None = None

    def show(self, job: JobRecord) -> None:
        document = job_document(job)
        of_change = {name: value for name, value in document.items() if name not in _RENEWED}
        if of_change == self._told:
            return
        self._told = of_change
        self._screen.document(document)
        self._screen.line(f"{moment_text(datetime.now(UTC))}  {standing_text(job)}")


_RENEWED: Final = ("heartbeat", "lease_expires")
