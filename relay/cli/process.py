"""`selfmanaged relay|consume|run`: processes that run until a signal."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Final

import typer

from relay.app import App
from relay.cli.argument import AppArgument, examples
from relay.cli.command import run_command
from relay.cli.drain import drain as drain_outbox
from relay.cli.exit_code import ExitCode
from relay.cli.log import configure_logging
from relay.cli.screen import Screen
from relay.cli.stop_signal import stop_on_signal
from relay.composition.process import RELAY_LIMIT
from relay.health_server import HealthServer
from relay.settings import LogLevel, read_settings

_log: Final = logging.getLogger(__name__)


HealthPortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="Answer /livez and /readyz over HTTP on this port; 0 takes a free one.",
        show_default=False,
    ),
]
HealthHostOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Where the health port listens. Default: everywhere.", show_default=False
    ),
]
LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option(
        metavar="LEVEL",
        help="debug, info, warning or error. Default: SELFMANAGED_LOG_LEVEL, or info.",
        show_default=False,
        case_sensitive=False,
    ),
]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Log as JSON lines on stderr.")]


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
        async with _running(loaded, screen, "relay", health_port, health_host) as stop:
            if drain:
                return await drain_outbox(loaded, stop, screen, relays=relays, timeout_seconds=drain_timeout)
            await loaded.run_relay(stop, relays=relays)
            return ExitCode.DONE

    _run(app, work, log_level, json=json)


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
        async with _running(loaded, screen, "consumers", health_port, health_host) as stop:
            await loaded.run_consumers(stop, only=only or None)
        return ExitCode.DONE

    _run(app, work, log_level, json=json)


def run(
    *,
    app: AppArgument,
    health_port: HealthPortOption = None,
    health_host: HealthHostOption = None,
    log_level: LogLevelOption = None,
    json: JsonLinesOption = False,
) -> None:
    """Relay and consumers in one process, until SIGINT or SIGTERM."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        async with _running(loaded, screen, "relay and consumers", health_port, health_host) as stop:
            await loaded.run(stop)
        return ExitCode.DONE

    _run(app, work, log_level, json=json)


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


def _run(
    app: str, work: Callable[[App, Screen], Awaitable[ExitCode]], level: LogLevel | None, *, json: bool
) -> None:
    async def logged(loaded: App, screen: Screen) -> ExitCode:
        chosen = level or read_settings().log_level
        configure_logging(chosen.upper(), screen.error_console, json=json)
        return await work(loaded, screen)

    run_command(app, logged, json=json)


@contextlib.asynccontextmanager
async def _running(
    app: App, screen: Screen, what: str, health_port: int | None, health_host: str | None
) -> AsyncIterator[asyncio.Event]:
    tell = _log.info if screen.json else screen.note

    def on_first(number: signal.Signals) -> None:
        app.health.stop()
        tell(f"{number.name}: stopping gracefully; once more ends at once")

    async with contextlib.AsyncExitStack() as stack:
        if health_port is not None:
            server = await stack.enter_async_context(
                HealthServer(app.health, port=health_port, host=health_host)
            )
            tell(f"health on port {server.port}: /livez /readyz")
        stop = stack.enter_context(stop_on_signal(on_first))
        names = ", ".join(consumer.name for consumer in app.consumers) or "none"
        tell(f"{what} of {app.database_display}, broker {app.broker_display}, consumers {names}")
        yield stop
        tell("stopped")
