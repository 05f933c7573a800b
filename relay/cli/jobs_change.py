"""`selfmanaged jobs cancel|retry`: the two things that people do to a stored job."""

from typing import Annotated, assert_never

import typer

from jobs.answer import CancelAnswer, RetryAnswer
from relay.app import App
from relay.cli.argument import INSTANTS, AppArgument, JsonOption, examples, parse_instant
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.jobs_choice import JobIdArgument, ScopeOption
from relay.cli.jobs_view import instant_text, tell_missing
from relay.cli.screen import Screen


def cancel(*, app: AppArgument, job_id: JobIdArgument, scope: ScopeOption, json: JsonOption = False) -> None:
    """Cancel a queued job at once, and ask a running one to stop.

    Exit code 8 when there is none, 9 when it had ended before.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        return _tell_cancelled(await loaded.jobs.cancel(scope, job_id), job_id, screen)

    run_command(app, work, json=json)


def retry(
    *,
    app: AppArgument,
    job_id: JobIdArgument,
    scope: ScopeOption,
    at: Annotated[
        str | None,
        typer.Option(metavar="MOMENT", help=f"When it is due: {INSTANTS}. Default: now.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Queue a failed, cancelled or interrupted job again, if it has attempts left.

    Exit code 8 when there is none, 9 when its state does not allow it, 14 when all its attempts are used up.
    """
    due = None if at is None else parse_instant(at, option="--at")

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        answer = await loaded.jobs.retry(scope, job_id, next_run=due)
        return _tell_retried(answer, job_id, screen, due=instant_text(due) or "now")

    run_command(app, work, json=json)


def _tell_cancelled(answer: CancelAnswer, job_id: str, screen: Screen) -> ExitCode:
    match answer:
        case CancelAnswer.CANCELLED:
            told = f"Job {job_id!r} was queued and is cancelled; this used up no attempt."
            return _done(answer, job_id, screen, told, then="`jobs retry` queues it again.")
        case CancelAnswer.REQUESTED:
            told = f"Job {job_id!r} is running and was asked to stop; however it ends, it becomes cancelled."
            return _done(answer, job_id, screen, told, then="`jobs watch` shows when.")
        case CancelAnswer.FINAL:
            return _refused(
                ExitCode.INVALID_STATE,
                f"job {job_id!r} had ended before, and nothing was changed; `jobs show` tells how it ended",
                screen,
            )
        case CancelAnswer.NOT_FOUND:
            return tell_missing(job_id, screen)
        case _:
            assert_never(answer)


def _tell_retried(answer: RetryAnswer, job_id: str, screen: Screen, *, due: str) -> ExitCode:
    match answer:
        case RetryAnswer.QUEUED:
            told = f"Job {job_id!r} is queued again, due {due}."
            return _done(answer, job_id, screen, told, then="`jobs watch` follows it.")
        case RetryAnswer.INVALID_STATE:
            return _refused(
                ExitCode.INVALID_STATE,
                f"job {job_id!r} is not failed, cancelled or interrupted, perhaps because someone was first; "
                "`jobs show` tells how it stands",
                screen,
            )
        case RetryAnswer.NO_ATTEMPTS_LEFT:
            return _refused(
                ExitCode.NO_ATTEMPTS_LEFT,
                f"all attempts of job {job_id!r} are used up; `jobs submit` the request under another id",
                screen,
            )
        case RetryAnswer.NOT_FOUND:
            return tell_missing(job_id, screen)
        case _:
            assert_never(answer)


def _done(
    answer: CancelAnswer | RetryAnswer, job_id: str, screen: Screen, told: str, *, then: str
) -> ExitCode:
    screen.document({"job_id": job_id, "result": answer.value})
    screen.line(told)
    screen.note(then)
    return ExitCode.DONE


def _refused(code: ExitCode, told: str, screen: Screen) -> ExitCode:
    screen.error(code, told)
    return code


def add_to(group: typer.Typer) -> None:
    """Add both commands to the group `jobs`."""
    group.command("cancel", epilog=examples("selfmanaged jobs cancel shop:app invoice-17 --scope tenant-1"))(
        cancel
    )
    group.command(
        "retry",
        epilog=examples(
            "selfmanaged jobs retry shop:app invoice-17 --scope tenant-1",
            "selfmanaged jobs retry shop:app invoice-17 --scope tenant-1 --at 2026-02-01T03:00:00Z",
        ),
    )(retry)
