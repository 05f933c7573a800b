"""`selfmanaged dead`: what the broker's dead queues hold."""

from typing import Annotated

import typer

from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, OperatorOption, YesOption, examples
from relay.cli.command import run_command
from relay.cli.confirmation import confirmed
from relay.cli.exit_code import ExitCode
from relay.cli.screen import Screen
from relay.settings import operator_name, read_settings

commands = typer.Typer(
    no_args_is_help=True,
    help="The broker's dead queues: deliveries that could not be recorded, undecodable or conflicting.",
)
ConsumerArgument = Annotated[str, typer.Argument(metavar="CONSUMER", help="Name of the consumer.")]
LimitOption = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")]


@commands.command(
    "list",
    epilog=examples("selfmanaged dead list shop:app", "selfmanaged dead list shop:app billing"),
)
def list_dead(
    *,
    app: AppArgument,
    consumer: Annotated[
        str | None,
        typer.Argument(metavar="[CONSUMER]", help="Show the deliveries of this one.", show_default=False),
    ] = None,
    limit: LimitOption = 100,
    json: JsonOption = False,
) -> None:
    """How many deliveries each dead queue holds, or those of one consumer; never their payloads."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        if consumer is None:
            counts = await loaded.dead.counts()
            screen.document({"counts": counts})
            screen.table(["Consumer", "Dead deliveries"], sorted(counts.items()))
            if not counts:
                screen.note("local: has no dead queues; `selfmanaged failed list` shows what failed.")
            return ExitCode.DONE
        deliveries = await loaded.dead.list(consumer, limit=limit)
        screen.document({"consumer": consumer, "deliveries": deliveries})
        screen.table(
            ["#", "Message", "Contract", "Reason", "Body bytes"],
            [
                (
                    each.position,
                    each.message_id or "?",
                    each.contract_name or "?",
                    each.reason,
                    each.body_bytes,
                )
                for each in deliveries
            ],
            whole=["Message"],
        )
        if not deliveries:
            screen.note(f"The dead queue of {consumer} is empty.")
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command("requeue", epilog=examples("selfmanaged dead requeue shop:app billing --limit 10"))
def requeue(
    *,
    app: AppArgument,
    consumer: ConsumerArgument,
    limit: LimitOption = 100,
    operator: OperatorOption = None,
    json: JsonOption = False,
) -> None:
    """Give deliveries back to the consumer's queue, the oldest first. Repair what was wrong before."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        moved = await loaded.dead.requeue(consumer, operator=_operator(operator), limit=limit)
        screen.document({"consumer": consumer, "requeued": moved})
        screen.line(f"Requeued {moved} deliveries for {consumer}.")
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command("drop", epilog=examples("selfmanaged dead drop shop:app billing --limit 1 --yes"))
def drop(
    *,
    app: AppArgument,
    consumer: ConsumerArgument,
    limit: LimitOption = 100,
    operator: OperatorOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Remove deliveries for ever, the oldest first. What they said is lost."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        found = [] if yes else await loaded.dead.list(consumer, limit=limit)
        if found and not confirmed(f"Remove {len(found)} dead deliveries of {consumer} for ever?"):
            screen.note("Nothing was dropped.")
            return ExitCode.DONE
        dropped = await loaded.dead.drop(consumer, operator=_operator(operator), limit=limit)
        screen.document({"consumer": consumer, "dropped": dropped})
        screen.line(f"Dropped {dropped} deliveries of {consumer}.")
        return ExitCode.DONE

    run_command(app, work, json=json)


def _operator(given: str | None) -> str:
    return given or operator_name(read_settings())
