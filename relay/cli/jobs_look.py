"""`selfmanaged jobs list|show`: what is stored of the jobs of one scope."""

from typing import Annotated

import typer

from jobs.listing import JobCursor, JobFilter
from jobs.snapshot import JobSnapshot
from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, examples
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.jobs_choice import (
    HandlerOption,
    JobIdArgument,
    QueueOption,
    ScopeOption,
    SinceOption,
    StateOption,
    UntilOption,
    chosen,
)
from relay.cli.jobs_cursor import read_cursor, write_cursor
from relay.cli.jobs_view import show_job, show_page, tell_missing
from relay.cli.screen import Screen


def list_jobs(
    *,
    app: AppArgument,
    scope: ScopeOption,
    states: StateOption = None,
    queue: QueueOption = None,
    handler: HandlerOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Jobs on one page.")] = 100,
    cursor: Annotated[
        str | None, typer.Option(help="Where the page before ended.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the jobs of a scope, the latest submitted first; never their arguments."""
    wanted = chosen(states=states, queue=queue, handler=handler, since=since, until=until)

    async def work(loaded: App, screen: Screen) -> ExitCode:
        after = None if cursor is None else read_cursor(cursor)
        await loaded.check_database()
        page = await loaded.jobs.list(scope, wanted, cursor=after, limit=limit)
        end = JobCursor.after(page[-1]) if len(page) == limit else None
        if end is not None and not await loaded.jobs.list(scope, wanted, cursor=end, limit=1):
            end = None
        nothing = _none_found(wanted) if after is None else "There are no more."
        show_page(page, None if end is None else write_cursor(end), screen, nothing=nothing)
        return ExitCode.DONE

    run_command(app, work, json=json)


def show(
    *,
    app: AppArgument,
    job_id: JobIdArgument,
    scope: ScopeOption,
    arguments: Annotated[
        bool, typer.Option("--arguments", help="Show the arguments too, as the exact JSON text.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show a job as it stands and each of its attempts; exit code 8 when there is none.

    Its arguments are shown only with --arguments: they may hold what nobody should read over a shoulder.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        find = loaded.jobs.find if arguments else loaded.jobs.find_record
        job = await find(scope, job_id)
        if job is None:
            return tell_missing(job_id, screen)
        text = job.arguments if isinstance(job, JobSnapshot) else None
        show_job(job, await loaded.jobs.attempts(scope, job_id), screen, arguments=text)
        return ExitCode.DONE

    run_command(app, work, json=json)


def add_to(group: typer.Typer) -> None:
    """Add both commands to the group `jobs`."""
    group.command(
        "list",
        epilog=examples(
            "selfmanaged jobs list shop:app --scope tenant-1",
            "selfmanaged jobs list shop:app --scope tenant-1 --state failed --state interrupted --since 2h",
            "selfmanaged jobs list shop:app --scope tenant-1 --json | jq -r '.jobs[].job_id'",
        ),
    )(list_jobs)
    group.command(
        "show",
        epilog=examples(
            "selfmanaged jobs show shop:app invoice-17 --scope tenant-1",
            "selfmanaged jobs show shop:app invoice-17 --scope tenant-1 --arguments",
        ),
    )(show)


def _none_found(wanted: JobFilter) -> str:
    if wanted == JobFilter():
        return "This scope has no jobs; scopes are compared exactly."
    return "No job of this scope matches."
