"""`selfmanaged status` and `selfmanaged check`: what is stored, and whether all that is needed is there."""

from typing import Annotated, Final

import typer

from jobs.answer import JobCounts
from relay.admin.status import Status
from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, examples
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.screen import Screen
from relay.health import Readiness
from relay.health_server import report_as_json

_STYLES: Final = {Readiness.READY: "green", Readiness.DEGRADED: "yellow", Readiness.UNREADY: "red"}


def status(app: AppArgument, json: JsonOption = False) -> None:
    """How many messages and jobs wait, are in hand, or were given up.

    Also what the broker's dead queues hold, when the broker can be asked. Jobs are those of all scopes.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        _show_status(await loaded.status(), loaded, screen)
        return ExitCode.DONE

    run_command(app, work, json=json)


def check(
    app: AppArgument,
    strict: Annotated[bool, typer.Option("--strict", help="A degraded App is not good enough.")] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Also whether database and schedules are fit for a release.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Readiness, as `/readyz` gives it: database, tables, broker and topology.

    Exit code 0 when ready or degraded (the broker is away: what is written stays durable), 4 when the
    database is away, 5 when our tables are missing. With --strict also 6 when the broker is away and 7
    when its topology is incomplete. With --release also 17, and a line for each reason: the database may
    lose commits, a critical schedule is disabled, has no slot to come or has not succeeded in time, a
    declaration does not agree with what is stored, or no host is alive.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        report = await loaded.health.report()
        unfit = await loaded.release_problems() if release and report.is_ready else []
        screen.document(report_as_json(report) | ({"release_problems": unfit} if release else {}))
        told: dict[str, str] = {}
        for each in report.checks:
            first = told.setdefault(each.detail, each.name)
            detail = each.detail if first == each.name or not each.detail else f"as {first}"
            screen.line(
                f"{each.name:<10} {each.readiness.value:<9} {detail}".rstrip(), style=_STYLES[each.readiness]
            )
        failing = {each.name for each in report.checks if each.readiness is not Readiness.READY}
        for name, code in _CODES_WHEN_FAILING:
            if name in failing and (strict or not report.is_ready):
                return code
        for problem in unfit:
            screen.line(f"not fit: {problem}", style="red")
        return ExitCode.NOT_FIT if unfit else ExitCode.DONE

    run_command(app, work, json=json)


_CODES_WHEN_FAILING: Final = (
    ("database", ExitCode.DATABASE_AWAY),
    ("tables", ExitCode.SCHEMA_DIFFERS),
    ("broker", ExitCode.BROKER_AWAY),
    ("topology", ExitCode.TOPOLOGY_DIFFERS),
)


def _show_status(status: Status, app: App, screen: Screen) -> None:
    screen.document(status.as_document())
    screen.line(f"{app.database_display}  {app.broker_display}", style="bold")
    screen.table(["Queue", "State", "Messages"], status.rows())
    for queue, age in status.oldest_age_seconds.items():
        if age is not None:
            screen.line(f"oldest unfinished in {queue}: {_age(age)}")
    for consumer, count in sorted(status.dead_deliveries.items()):
        if count:
            screen.line(f"dead queue of {consumer}: {count} deliveries", style="yellow")
    if status.dead_deliveries_unknown:
        screen.note(f"dead queues unknown: {status.dead_deliveries_unknown}", style="yellow")
    if status.jobs is not None:
        _show_jobs(status.jobs, screen)


def _show_jobs(counts: JobCounts, screen: Screen) -> None:
    screen.line("")
    screen.table(
        ["Queue of jobs", "Queued", "Running", "Oldest due"],
        [
            (each.queue, each.queued, each.running, _age(each.oldest_due_age_seconds))
            for each in counts.queues
        ],
    )
    screen.line(
        f"jobs that failed {counts.failed}, were cancelled {counts.cancelled}, "
        f"were interrupted {counts.interrupted}"
    )


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.1f} s"


def add_to(program: typer.Typer) -> None:
    """Add both commands."""
    program.command("status", epilog=examples("selfmanaged status shop:app"))(status)
    program.command(
        "check",
        epilog=examples("selfmanaged check shop:app", "selfmanaged check shop:app --strict"),
    )(check)
