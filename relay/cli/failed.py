"""`selfmanaged failed`: list, show, replay and discard what was given up."""

from typing import Annotated

import typer

from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, examples
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.failed_choice import (
    ConsumerOption,
    ContractOption,
    ErrorCodeOption,
    KindOption,
    SinceOption,
    UntilOption,
    VersionOption,
    chosen,
)
from relay.cli.failed_view import none_found, show_detail, show_history, show_page
from relay.cli.screen import Screen

commands = typer.Typer(no_args_is_help=True, help="Messages that were given up: list, show, replay, discard.")


@commands.command(
    "list",
    epilog=examples(
        "selfmanaged failed list shop:app",
        "selfmanaged failed list shop:app --consumer billing --since 2h",
        "selfmanaged failed list shop:app --json | jq -r '.failed[].failure_id'",
    ),
)
def list_failed(
    *,
    app: AppArgument,
    kind: KindOption = None,
    contract: ContractOption = None,
    contract_version: VersionOption = None,
    consumer: ConsumerOption = None,
    error_code: ErrorCodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Messages on one page.")] = 100,
    cursor: Annotated[
        str | None, typer.Option(help="Where the page before ended.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """List what was given up, the latest failure first; never a payload."""
    wanted = chosen(
        kind=kind,
        contract=contract,
        contract_version=contract_version,
        consumer=consumer,
        error_code=error_code,
        since=since,
        until=until,
    )

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        page = await loaded.failed.list(wanted, cursor=cursor, limit=limit)
        nothing = none_found(wanted, [each.name for each in loaded.consumers])
        show_page(page, screen, nothing=nothing if cursor is None else "There are no more.")
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command("history", epilog=examples("selfmanaged failed history shop:app --limit 20"))
def history(
    *,
    app: AppArgument,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    json: JsonOption = False,
) -> None:
    """What operators did: replays, discards, and what they did to dead queues; the newest first."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        show_history(await loaded.failed.operations(limit=limit), screen)
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command("show", epilog=examples("selfmanaged failed show shop:app inbox:019c...:billing"))
def show(
    app: AppArgument,
    failure_id: Annotated[str, typer.Argument(metavar="FAILURE_ID", help="As `failed list` prints it.")],
    json: JsonOption = False,
) -> None:
    """Show one message as it stands and what operators did to it; exit code 8 when there is none."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        detail = await loaded.failed.find(failure_id)
        if detail is None:
            screen.error(
                ExitCode.NOT_FOUND, f"there is no message {failure_id}; `failed list` shows those that failed"
            )
            return ExitCode.NOT_FOUND
        show_detail(detail, screen)
        return ExitCode.DONE

    run_command(app, work, json=json)
