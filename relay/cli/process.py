"""`selfmanaged relay|consume|run`: processes that run until a signal."""

from typing import Annotated

import typer

from relay.app import App
from relay.cli.argument import AppArgument, examples
from relay.cli.drain import drain as drain_outbox
from relay.cli.exit_code import ExitCode
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
from relay.composition.process import RELAY_LIMIT


def relay(
    *,
    app: AppArgument,
    drain: Annotated[
        bool, typer.Option("--drain", help="End when nothing is left to publish, instead of running on.")
    ] = False,
    drain_timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="End the drain after this long.", show_default=False),
    ] = None,
    relays: Annotated[
        int, typer.Option(min=1, max=RELAY_LIMIT, metavar="NUMBER", help="Relays in this process.")
    ] = 1,
    health_port: HealthPortOption = None,
    health_host: HealthHostOption = None,
    log_level: LogLevelOption = None,
    json: JsonLinesOption = False,
) -> None:
    """Publish what the outbox holds, until SIGINT or SIGTERM.

    Any number of relays share the work. The first signal ends gracefully: the batch in hand is confirmed
    and settled. The second ends at once; what was in hand comes back when its lease runs out. A broker that
    is away is waited for.
    """
    if drain_timeout is not None and not drain:
        raise typer.BadParameter("--drain-timeout goes with --drain")

    async def work(loaded: App, screen: Screen) -> ExitCode:
        async with running(loaded, screen, _opening("relay", loaded), health_port, health_host) as stop:
            if drain:
                return await drain_outbox(loaded, stop, screen, relays=relays, timeout_seconds=drain_timeout)
            await loaded.run_relay(stop, relays=relays)
            return ExitCode.DONE

    run_process(app, work, log_level, json=json)


def consume(
    *,
    app: AppArgument,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="CONSUMER",
            help="Host this consumer alone; may be repeated.",
            show_default=False,
        ),
    ] = None,
    health_port: HealthPortOption = None,
    health_host: HealthHostOption = None,
    log_level: LogLevelOption = None,
    json: JsonLinesOption = False,
) -> None:
    """Run the handlers of the App's consumers, until SIGINT or SIGTERM.

    Any number of processes share the work. The first signal ends gracefully: running handlers get the grace
    period. The second ends at once; what was in hand comes back when its lease runs out.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        async with running(loaded, screen, _opening("consumers", loaded), health_port, health_host) as stop:
            await loaded.run_consumers(stop, only=only or None)
        return ExitCode.DONE

    run_process(app, work, log_level, json=json)


def run(
    *,
    app: AppArgument,
    health_port: HealthPortOption = None,
    health_host: HealthHostOption = None,
    log_level: LogLevelOption = None,
    json: JsonLinesOption = False,
) -> None:
    """Relay, consumers and executor of jobs in one process, until SIGINT or SIGTERM.

    What the App has of these; see `relay`, `consume` and `jobs`.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        opening = _opening("relay and consumers", loaded)
        if loaded.job_handlers:
            opening = _opening("relay, consumers and executor", loaded)
            opening += f", handlers of jobs {job_handler_names(loaded)}"
        async with running(loaded, screen, opening, health_port, health_host) as stop:
            await loaded.run(stop)
        return ExitCode.DONE

    run_process(app, work, log_level, json=json)


def add_to(program: typer.Typer) -> None:
    """Add the three commands."""
    program.command(
        "relay",
        epilog=examples(
            "selfmanaged relay shop:app --health-port 8080",
            "selfmanaged relay shop:app --drain",
        ),
    )(relay)
    program.command(
        "consume",
        epilog=examples("selfmanaged consume shop:app", "selfmanaged consume shop:app --only billing"),
    )(consume)
    program.command("run", epilog=examples("selfmanaged run shop:app"))(run)


def _opening(what: str, app: App) -> str:
    names = ", ".join(consumer.name for consumer in app.consumers) or "none"
    return f"{what} of {app.database_display}, broker {app.broker_display}, consumers {names}"
