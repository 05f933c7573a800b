"""One word that runs the executor of an App, and leads to the commands on its jobs."""

from importlib.machinery import PathFinder
from pathlib import Path
from sys import path as import_path
from typing import Any, Final

import typer
from typer.core import TyperGroup

from uow.suggestion import did_you_mean

EXECUTOR: Final = "MODULE:APP"
"""Under this name the executor stands among the commands of the group, as its help shows it."""
_HELP: Final = ("-h", "--help")


class JobsGroup(TyperGroup):
    """Followed by an App or an option it is the executor, followed by a word it is the command of that name.

    An App has a colon, and no command has one.
    """

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the executor, or of this group."""
        if not args or args[0] in _HELP or not (":" in args[0] or args[0].startswith("-")):
            return super().make_context(info_name, args, parent, **extra)
        module = args[0].partition(":")[0]
        if module in self.commands and not _is_module(module):
            raise typer.BadParameter(
                f"there is no module {module!r}; the command is `selfmanaged jobs {module} MODULE:APP`, "
                "with a blank",
                param_hint=f"'{EXECUTOR}'",
            )
        if args[1:] and args[1] in self.commands:
            raise typer.BadParameter(f"the command comes first: `selfmanaged jobs {args[1]} {args[0]}`")
        return self.commands[EXECUTOR].make_context(info_name, args, parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of that name; the error for another one says what it may have been meant to be."""
        name = args[0]
        if name not in self.commands:
            known = [each for each in self.commands if each != EXECUTOR]
            ctx.fail(
                f"No such command {name!r}{did_you_mean(name, known)}\n"
                f"To run the executor, name the App as {EXECUTOR}, like shop.messaging:app."
            )
        return super().resolve_command(ctx, args)


def _is_module(name: str) -> bool:
    return PathFinder.find_spec(name, [str(Path.cwd()), *import_path]) is not None
