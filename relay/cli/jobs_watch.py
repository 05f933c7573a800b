"""`selfmanaged jobs watch`: follow one job to its end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import typer

from jobs.snapshot import JobRecord
from jobs.state import FINAL, JobState
from relay.app import App
from relay.cli.argument import AppArgument, examples
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.jobs_choice import JobIdArgument, ScopeOption
from relay.cli.jobs_view import tell_missing
from relay.cli.jobs_watch_view import Show, standing_text, watching
from relay.cli.screen import Screen
from uow.loop.supervision import is_outage


def watch(
    *,
    app: AppArgument,
    job_id: JobIdArgument,
    scope: ScopeOption,
    interval: Annotated[
        float, typer.Option(min=0.05, max=3600, metavar="SECONDS", help="How often to look.")
    ] = 0.5,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="Leave it after this long; the job goes on.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line on stdout for each change.")
    ] = False,
) -> None:
    """Follow a job until it has ended: a bar on a terminal, elsewhere a line for each change.

    Exit code 0 when it succeeded, 8 when there is none, 15 when it failed, was cancelled or was interrupted,
    16 when it has not ended in time. Ctrl-C leaves it alone.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        try:
            with watching(screen) as show:
                look = partial(loaded.jobs.find_record, scope, job_id)
                job = await follow(look, show, screen, interval=interval, deadline=deadline)
        except TimeoutError:
            screen.error(
                ExitCode.TIMED_OUT,
                f"job {job_id!r} has not ended within {timeout:g} s and goes on; watch it again, "
                "or `jobs cancel` ends it",
            )
            return ExitCode.TIMED_OUT
        return tell_missing(job_id, screen) if job is None else _tell_end(job, screen)

    run_command(app, work, json=json)


async def follow(
    look: Callable[[], Awaitable[JobRecord | None]],
    show: Show,
    screen: Screen,
    *,
    interval: float,
    deadline: float,
) -> JobRecord | None:
    """The job once it is final, or None when there is none. Raises TimeoutError at the deadline.

    A database that cannot be asked at the moment is waited for.
    """
    is_away = False
    while True:
        try:
            job = await look()
        except Exception as error:
            if not is_outage(error):
                raise
            if not is_away:
                screen.note("The database cannot be asked at the moment; waiting for it.", style="yellow")
            is_away = True
        else:
            is_away = False
            if job is not None:
                show(job)
            if job is None or job.state in FINAL:
                return job
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        await asyncio.sleep(min(interval, left))


def _tell_end(job: JobRecord, screen: Screen) -> ExitCode:
    if screen.live:
        screen.line(f"{job.job_id!r}  {standing_text(job)}")
    if job.state is JobState.SUCCEEDED:
        return ExitCode.DONE
    then = (
        f"`jobs retry` queues it again ({job.attempts_left} attempts left)"
        if job.attempts_left
        else "no attempts are left; `jobs submit` the request under another id"
    )
    code = ExitCode.NOT_SUCCEEDED
    screen.error(code, f"job {job.job_id!r} ended as {job.state.value}; {then}")
    return code


def add_to(group: typer.Typer) -> None:
    """Add the command to the group `jobs`."""
    group.command(
        "watch",
        epilog=examples(
            "selfmanaged jobs watch shop:app invoice-17 --scope tenant-1",
            "selfmanaged jobs watch shop:app invoice-17 --scope tenant-1 --timeout 600 --json",
        ),
    )(watch)
