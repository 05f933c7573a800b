"""`selfmanaged schema`: the statements of our tables, and whether a database has them."""

import typer

from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, examples
from relay.cli.command import run_command
from relay.cli.exit_code import ExitCode
from relay.cli.screen import Screen
from relay.schema import ddl

commands = typer.Typer(
    no_args_is_help=True, help="Our tables: print their DDL, compare a database with them."
)


@commands.command(
    "ddl",
    epilog=examples("selfmanaged schema ddl shop:app", "selfmanaged schema ddl shop:app > 001.sql"),
)
def print_ddl(app: AppArgument, json: JsonOption = False) -> None:
    """Print the statements that create our tables on the App's kind of database. Nothing is connected.

    For applications without Alembic; Alembic's autogenerate sees the tables on your MetaData by itself.
    """

    async def work(loaded: App, screen: Screen) -> ExitCode:
        statements = ddl(loaded.metadata, loaded.engine.dialect)
        screen.document({"statements": statements})
        for statement in statements:
            screen.line(f"{statement};\n")
        return ExitCode.DONE

    run_command(app, work, json=json)


@commands.command("check", epilog=examples("selfmanaged schema check shop:app"))
def check(app: AppArgument, json: JsonOption = False) -> None:
    """Compare the database with our tables; exit code 5 when something is missing or differs."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        differences = await loaded.schema_differences()
        screen.document(
            {
                "matches": not differences,
                "differences": [
                    {"problem": each.problem.value, "name": each.name, "detail": each.detail}
                    for each in differences
                ],
            }
        )
        if not differences:
            screen.line("The database holds our tables as this version declares them.", style="green")
            return ExitCode.DONE
        screen.table(
            ["Problem", "Where", "Detail"],
            [(each.problem.value, each.name, each.detail) for each in differences],
            whole=["Where"],
        )
        screen.note("Bring them with a migration; `selfmanaged schema ddl` prints the statements.")
        return ExitCode.SCHEMA_DIFFERS

    run_command(app, work, json=json)
