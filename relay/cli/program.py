"""The whole command line, put together."""

import inspect
from typing import Annotated

import typer

from relay.cli import (
    dead,
    failed,
    failed_repair,
    jobs,
    jobs_change,
    jobs_look,
    jobs_submit,
    jobs_watch,
    process,
    schedules,
    schema,
    status,
    topology,
)
from relay.cli.exit_code import ExitCode

_EXIT_CODES = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode)

program = typer.Typer(
    name="selfmanaged",
    help="Run and look after the messaging of an application: outbox, relay, inbox, failed messages, jobs.",
    epilog="\n\n".join(
        [
            "[bold]Examples[/]",
            "  [cyan]selfmanaged run shop:app[/]",
            "  [cyan]selfmanaged failed list shop:app --json[/]",
            f"[bold]Exit codes[/]  {_EXIT_CODES}",
        ]
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - rarely asked

        try:
            typer.echo(version("selfmanaged"))
        except PackageNotFoundError:
            typer.echo("not installed as a distribution")
        raise typer.Exit


@program.callback()
def _selfmanaged(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the command."""


def _unwrap_help(group: typer.Typer) -> None:
    """Give the docstrings to the terminal as paragraphs, which it wraps to its own width."""
    for command in group.registered_commands:
        paragraphs = inspect.cleandoc((command.callback and command.callback.__doc__) or "").split("\n\n")
        command.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


process.add_to(program)
status.add_to(program)
failed_repair.add_to(failed.commands)
for _module in (jobs_look, jobs_submit, jobs_change, jobs_watch):
    _module.add_to(jobs.commands)
_unwrap_help(program)
for _name, _group in {
    "jobs": jobs.commands,
    "schedules": schedules.commands,
    "failed": failed.commands,
    "dead": dead.commands,
    "topology": topology.commands,
    "schema": schema.commands,
}.items():
    _unwrap_help(_group)
    program.add_typer(_group, name=_name)
