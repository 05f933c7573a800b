"""The options of `jobs submit`, and the submission that they describe."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs.errors import JobSubmissionError
from jobs.submission import MAXIMUM_ATTEMPTS, MAXIMUM_VERSION, PRIORITY_LIMIT, JobSubmission
from relay.cli.argument import INSTANTS
from uow.text import TextError

_NAMES: Final = {
    "scope": "--scope",
    "job_id": "--id",
    "handler": "HANDLER",
    "queue": "--queue",
    "arguments": "--arguments",
    "arguments_json": "--arguments",
}
"""How the fields of a submission are called on the command line."""

HandlerArgument = Annotated[
    str, typer.Argument(metavar="HANDLER", help="The name that the handler is registered under.")
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="ID", help="Its id in the scope. Default: a new UUID, printed.", show_default=False
    ),
]
VersionOption = Annotated[
    int, typer.Option(min=1, max=MAXIMUM_VERSION, metavar="NUMBER", help="The version of the handler.")
]
ArgumentsOption = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="Its arguments; kept exactly as written.", show_default=False),
]
ArgumentsFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The same from a file, or from stdin as [cyan]-[/].",
        show_default=False,
    ),
]
TargetQueueOption = Annotated[str, typer.Option("--queue", metavar="NAME", help="The queue it waits in.")]
MaxAttemptsOption = Annotated[
    int, typer.Option(min=1, max=MAXIMUM_ATTEMPTS, metavar="NUMBER", help="How often it may be tried.")
]
NotBeforeOption = Annotated[
    str | None,
    typer.Option(metavar="MOMENT", help=f"When it is due: {INSTANTS}. Default: now.", show_default=False),
]
PriorityOption = Annotated[
    int, typer.Option(min=-PRIORITY_LIMIT, max=PRIORITY_LIMIT, metavar="NUMBER", help="Higher goes first.")
]
UnknownHandlerOption = Annotated[
    bool,
    typer.Option("--unknown-handler", help="Submit it although this App has no such handler: another may."),
]


def requested(**fields: Any) -> JobSubmission:
    """The submission of these fields. Raises typer.BadParameter naming the option that breaks a rule."""
    try:
        return JobSubmission.create(**fields)
    except (JobSubmissionError, TextError) as error:
        option = _NAMES.get(error.field, error.field)
        raise typer.BadParameter(error.rule, param_hint=f"'{option}'") from None
