"""`selfmanaged jobs`: the executor of jobs, and what people do with jobs."""

from typing import Annotated

import typer

from relay.app import App
from relay.cli.argument import AppArgument, examples
from relay.cli.exit_code import ExitCode
from relay.cli.jobs_group import EXECUTOR, JobsGroup
from relay.cli.running import (
    HealthHostOption,
    HealthPortOption,
    JsonLinesOption,
    LogLevelOption,
    job_handler_names,
    run_process,
    running,
)
from relay.cli.screen import Screen

commands = typer.Typer(
    cls=JobsGroup,
    no_args_is_help=True,
    subcommand_metavar=f"{EXECUTOR} | COMMAND {EXECUTOR} ...",
    help="Run the handlers of jobs, or look after jobs: list, show, submit, cancel, retry, watch.\n\n"
    f"[bold]selfmanaged jobs {EXECUTOR}[/] is the executor: it runs due jobs until SIGINT or SIGTERM; add "
    f"--help for its options (--queue, --health-port, --health-host, --log-level, --json).\n\n"
    f"[bold]selfmanaged jobs COMMAND {EXECUTOR}[/] does one thing to the jobs of one scope.",
    epilog=examples(
        "selfmanaged jobs shop:app",
        "selfmanaged jobs shop:app --queue reports --health-port 8080",
        "selfmanaged jobs list shop:app --scope tenant-1 --state failed",
        "selfmanaged jobs watch shop:app invoice-17 --scope tenant-1",
    ),
)


@commands.command(
    EXECUTOR,
    epilog=examples("selfmanaged jobs shop:app", "selfmanaged jobs shop:app --queue reports --queue mail"),
)
def execute(
    *,
    app: AppArgument,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="Serve this queue instead of those of the App's options; may be repeated.",
            show_default=False,
        ),
    ] = None,
    no_schedules: Annotated[
        bool, typer.Option("--no-schedules", help="Run jobs, but fire no slots of schedules.")
    ] = False,
    health_port: HealthPortOption = None,
    health_host: HealthHostOption = None,
    log_level: LogLevelOption = None,
    json: JsonLinesOption = False,
) -> None:
    """Run the handlers of due jobs and host the App's schedules, until SIGINT or SIGTERM.

    Any number of processes share the work. The first signal ends gracefully: no job is begun any more, and
    running handlers get the grace period; jobs that are interrupted then are queued again without using up
    an attempt, if their handlers allow it. The second ends at once; leases bring those jobs back.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        served = ", ".join(queues or loaded.options.executor.queues)
        opening = (
            f"executor of {loaded.database_display}, queues {served}, handlers {job_handler_names(loaded)}"
        )
        async with running(loaded, screen, opening, health_port, health_host) as stop:
            await loaded.run_jobs(stop, queues=queues or None, schedules=not no_schedules)
        return ExitCode.DONE

    run_process(app, work, log_level, json=json)
