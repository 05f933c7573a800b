"""What all processes share that run until a signal: options, logging, health port, signals."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator
from typing import Annotated, Final, NoReturn

import typer

from relay.app import App
from relay.cli.command import Work, run_command
from relay.cli.exit_code import ExitCode
from relay.cli.log import configure_logging
from relay.cli.screen import Screen
from relay.cli.stop_signal import stop_on_signal
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


def run_process(app: str, work: Work, level: LogLevel | None, *, json: bool) -> NoReturn:
    """As `run_command`, with logging on stderr at `level` or that of the settings."""

    async def logged(loaded: App, screen: Screen) -> ExitCode:
        chosen = level or read_settings().log_level
        configure_logging(chosen.upper(), screen.error_console, json=json)
        return await work(loaded, screen)

    run_command(app, logged, json=json)


@contextlib.asynccontextmanager
async def running(
    app: App, screen: Screen, opening: str, health_port: int | None, health_host: str | None
) -> AsyncIterator[asyncio.Event]:
    """An event that the first signal sets, with the health port open; `opening` says what runs."""
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
        tell(opening)
        yield stop
        tell("stopped")


def job_handler_names(app: App) -> str:
    """The handlers of jobs of an App, for an opening line."""
    return ", ".join(f"{handler.name} v{handler.version}" for handler in app.job_handlers) or "none"
