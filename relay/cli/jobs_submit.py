"""`selfmanaged jobs submit`: an operator asks for a job as an application does."""

import typer
from uuid_utils.compat import uuid7

from jobs.submission import JobSubmission
from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, examples, parse_instant
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.jobs_arguments import read_arguments
from relay.cli.jobs_choice import ScopeOption
from relay.cli.jobs_group import EXECUTOR
from relay.cli.jobs_request import (
    ArgumentsFileOption,
    ArgumentsOption,
    HandlerArgument,
    IdOption,
    MaxAttemptsOption,
    NotBeforeOption,
    PriorityOption,
    TargetQueueOption,
    UnknownHandlerOption,
    VersionOption,
    requested,
)
from relay.cli.jobs_view import instant_text, job_document
from relay.cli.screen import Screen
from uow.suggestion import did_you_mean


def submit(
    *,
    app: AppArgument,
    handler: HandlerArgument,
    scope: ScopeOption,
    job_id: IdOption = None,
    version: VersionOption = 1,
    arguments: ArgumentsOption = None,
    arguments_file: ArgumentsFileOption = None,
    queue: TargetQueueOption = "default",
    max_attempts: MaxAttemptsOption = 5,
    not_before: NotBeforeOption = None,
    priority: PriorityOption = 0,
    unknown_handler: UnknownHandlerOption = False,
    json: JsonOption = False,
) -> None:
    """Submit a job, once: the same id with the same request again gives the job that is there.

    Exit code 2 when the App has no such handler (see --unknown-handler), 13 when the id belongs to another
    request.
    """
    submission = requested(
        scope=scope,
        job_id=str(uuid7()) if job_id is None else job_id,
        handler=handler,
        version=version,
        arguments_json=read_arguments(arguments, arguments_file),
        queue=queue,
        max_attempts=max_attempts,
        not_before=None if not_before is None else parse_instant(not_before, option="--not-before"),
        priority=priority,
    )

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        unknown = _unknown(loaded, submission)
        if unknown is None or unknown_handler:
            return await _submit(loaded, submission, screen, unknown=unknown)
        told = f"nothing was submitted: {unknown}\nIf another deployment has it, say --unknown-handler"
        screen.error(ExitCode.USAGE, told)
        return ExitCode.USAGE

    run_command(app, work, json=json)


async def _submit(app: App, submission: JobSubmission, screen: Screen, *, unknown: str | None) -> ExitCode:
    if unknown is not None:
        screen.note(f"warning: {unknown}\nThe job waits for an executor that has it.", style="yellow")
    (submitted,) = await app.jobs.submit_many([submission])
    job = submitted.snapshot
    told = {"submitted_now": submitted.created, "handler_known": unknown is None}
    screen.document(told | job_document(job))
    if submitted.created:
        due = "now" if job.initial_not_before is None else instant_text(job.initial_not_before)
        screen.line(f"Submitted job {job.job_id!r}, due {due}.", style="green")
        screen.note("`jobs watch` follows it.")
    else:
        screen.line(
            f"Job {job.job_id!r} was submitted before with the same request; it is {job.state.value}."
        )
        screen.note("Nothing was changed; `jobs show` tells how it stands.")
    queues = app.options.executor.queues
    if job.queue not in queues:
        screen.note(
            f"Its queue {job.queue!r} is none of this App's ({', '.join(queues)}); "
            f"`jobs {EXECUTOR} --queue {job.queue}` serves it.",
            style="yellow",
        )
    return ExitCode.DONE


def _unknown(app: App, submission: JobSubmission) -> str | None:
    """Why no handler of the App runs it, or None."""
    known = {handler.key for handler in app.job_handlers}
    if (submission.handler, submission.handler_version) in known:
        return None
    versions = sorted(version for name, version in known if name == submission.handler)
    if versions:
        other = ", ".join(map(str, versions))
        return (
            f"this App has handler {submission.handler!r} in version {other}, "
            f"not in {submission.handler_version}"
        )
    if not known:
        return "this App has no handlers of jobs"
    names = {name for name, _ in known}
    return f"this App has no handler {submission.handler!r}{did_you_mean(submission.handler, names)}"


def add_to(group: typer.Typer) -> None:
    """Add the command to the group `jobs`."""
    group.command(
        "submit",
        epilog=examples(
            "selfmanaged jobs submit shop:app invoices.render --scope tenant-1 --id invoice-17 "
            "--arguments '{\"number\": 17}'",
            "selfmanaged jobs submit shop:app reports.build --scope tenant-1 --not-before 2026-02-01",
            "jq -c .order order.json | selfmanaged jobs submit shop:app orders.pack --scope tenant-1 "
            "--arguments-file -",
        ),
    )(submit)
