"""`selfmanaged schedules`: what is scheduled, what happened, and what operators do about it."""

from typing import Annotated, Final
from uuid import UUID

import typer

from jobs.answer import RetryAnswer
from jobs.schedule.storing.control import PauseAnswer
from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, OperatorOption, examples
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.schedules_view import show_history, show_list, show_report
from relay.cli.screen import Screen
from relay.settings import operator_name, read_settings

commands = typer.Typer(
    no_args_is_help=True,
    help="Schedules: list, report, history, trigger, pause, resume, retry. "
    "[bold]selfmanaged jobs MODULE:APP[/] hosts them.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")]


@commands.command("list", epilog=examples("selfmanaged schedules list shop:app"))
def list_schedules(*, app: AppArgument, json: JsonOption = False) -> None:
    """What this App declares and what is stored: when each is due next, and how it ended last."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        show_list(await loaded.schedules.report(), screen)
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command("report", epilog=examples("selfmanaged schedules report shop:app --json"))
def report(*, app: AppArgument, json: JsonOption = False) -> None:
    """Everything known of each schedule and of the hosts, with all that does not fit.

    Exit code 17 when something does not.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        made = await loaded.schedules.report()
        show_report(made, screen)
        faults = made.problems or any(row.problems for row in made.rows)
        return ExitCode.NOT_FIT if faults else ExitCode.DONE

    run_command(app, work, json=json)


@commands.command("history", epilog=examples("selfmanaged schedules history shop:app files.orphan-cleanup"))
def history(
    *,
    app: AppArgument,
    name: NameArgument,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many runs and actions.")] = 20,
    json: JsonOption = False,
) -> None:
    """The runs of a schedule, and what people and hosts did to it, the latest first."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        runs = await loaded.schedules.runs(name, limit=limit)
        show_history(runs, await loaded.schedules.actions(name, limit=limit), screen)
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command(
    "trigger",
    epilog=examples('selfmanaged schedules trigger shop:app files.orphan-cleanup --reason "disk is full"'),
)
def trigger(
    *,
    app: AppArgument,
    name: NameArgument,
    reason: ReasonOption,
    operator: OperatorOption = None,
    json: JsonOption = False,
) -> None:
    """Run a schedule now, once; also one that is disabled or paused."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        run = await loaded.schedules.trigger(name, actor=_actor(operator), reason=reason)
        screen.document({"schedule": name, "run_id": str(run.run_id), "job_id": run.job_id})
        screen.line(f"Schedule {name!r} runs once more: run {run.run_id}.")
        screen.note("`schedules history` shows how it ended.")
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command(
    "pause", epilog=examples('selfmanaged schedules pause shop:app billing.settle --reason "audit"')
)
def pause(
    *,
    app: AppArgument,
    name: NameArgument,
    reason: ReasonOption,
    operator: OperatorOption = None,
    json: JsonOption = False,
) -> None:
    """Let no slot of a schedule fire until it is resumed; a run that has begun goes on."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        return _tell(await loaded.schedules.pause(name, actor=_actor(operator), reason=reason), name, screen)

    run_command(app, work, json=json)


@commands.command(
    "resume", epilog=examples('selfmanaged schedules resume shop:app billing.settle --reason "audit done"')
)
def resume(
    *,
    app: AppArgument,
    name: NameArgument,
    reason: ReasonOption,
    operator: OperatorOption = None,
    json: JsonOption = False,
) -> None:
    """Go on with the next slot after now; none that came while it was paused fires."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        return _tell(await loaded.schedules.resume(name, actor=_actor(operator), reason=reason), name, screen)

    run_command(app, work, json=json)


@commands.command(
    "retry",
    epilog=examples(
        'selfmanaged schedules retry shop:app 8eeea683-f303-5d73-ae40-30a702988b4a --reason "bank is back"'
    ),
)
def retry(
    *,
    app: AppArgument,
    run_id: Annotated[UUID, typer.Argument(metavar="RUN_ID", help="As `schedules history` prints it.")],
    reason: ReasonOption,
    operator: OperatorOption = None,
    json: JsonOption = False,
) -> None:
    """Queue the job of a run that did not succeed again: the same slot, the same identity."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        answer = await loaded.schedules.retry(run_id, actor=_actor(operator), reason=reason)
        code, told = _RETRIED[answer]
        if code is not ExitCode.DONE:
            screen.error(code, told.format(run_id))
            return code
        screen.document({"run_id": str(run_id), "result": answer.value})
        screen.line(told.format(run_id))
        return code

    run_command(app, work, json=json)


_RETRIED: Final = {
    RetryAnswer.QUEUED: (ExitCode.DONE, "Run {} is queued again."),
    RetryAnswer.INVALID_STATE: (
        ExitCode.INVALID_STATE,
        "run {} has not ended without success; `schedules history` shows how it stands",
    ),
    RetryAnswer.NO_ATTEMPTS_LEFT: (
        ExitCode.NO_ATTEMPTS_LEFT,
        "all attempts of run {} are used up; `schedules trigger` runs the schedule anew",
    ),
    RetryAnswer.NOT_FOUND: (
        ExitCode.NOT_FOUND,
        "there is no run {}, or its job is deleted; `schedules history` shows the runs",
    ),
}
_WORDS: Final = {
    PauseAnswer.PAUSED: "Schedule {!r} is paused; `schedules resume` lets it go on.",
    PauseAnswer.RESUMED: "Schedule {!r} goes on with its next slot.",
    PauseAnswer.UNCHANGED: "Schedule {!r} was so before; nothing was changed.",
}


def _tell(answer: PauseAnswer, name: str, screen: Screen) -> ExitCode:
    screen.document({"schedule": name, "result": answer.value})
    screen.line(_WORDS[answer].format(name))
    return ExitCode.DONE


def _actor(operator: str | None) -> str:
    return operator or operator_name(read_settings())
