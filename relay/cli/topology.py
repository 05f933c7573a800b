"""`selfmanaged topology`: exchanges, queues and bindings of an App on its broker."""

from collections.abc import Sequence

import typer

from relay.app import App
from relay.broker import TopologyPart
from relay.cli.argument import AppArgument, JsonOption, examples
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.screen import Screen

commands = typer.Typer(no_args_is_help=True, help="Exchanges, queues and bindings on the broker.")


@commands.command("declare", epilog=examples("selfmanaged topology declare shop:app"))
def declare(app: AppArgument, json: JsonOption = False) -> None:
    """Create what is missing; what exists is left as it is. Run it when consumers or contracts change.

    Exit code 7 when something exists that differs from what the App needs.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        return _show(await loaded.declare_topology(), loaded, screen)

    run_command(app, work, json=json)


@commands.command("show", epilog=examples("selfmanaged topology show shop:app --json"))
def show(app: AppArgument, json: JsonOption = False) -> None:
    """Look without changing anything; exit code 7 when something is missing or differs."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        code = _show(await loaded.check_topology(), loaded, screen)
        if code is ExitCode.TOPOLOGY_DIFFERS:
            screen.note("`selfmanaged topology declare` creates what is missing.")
        return code

    run_command(app, work, json=json)


def _show(parts: Sequence[TopologyPart], app: App, screen: Screen) -> ExitCode:
    wrong = [part for part in parts if not part.stands]
    screen.document(
        {
            "broker": app.broker_display,
            "complete": not wrong,
            "parts": [
                {"kind": part.kind, "name": part.name, "status": part.status, "detail": part.detail}
                for part in parts
            ],
        }
    )
    if not parts:
        screen.line("local: needs no topology; events go to the inbox of the same database.")
        return ExitCode.DONE
    screen.line(app.broker_display, style="bold")
    screen.table(
        ["Kind", "Name", "Status", "Detail"],
        [(part.kind, part.name, part.status, part.detail) for part in parts],
        whole=["Name", "Status"],
    )
    return ExitCode.TOPOLOGY_DIFFERS if wrong else ExitCode.DONE
