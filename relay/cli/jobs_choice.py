"""The options that name jobs: one of them by scope and id, or many by filters."""

from typing import Annotated

import typer

from jobs.errors import JobSubmissionError
from jobs.listing import JobFilter
from jobs.state import JobState
from jobs.submission import check_name
from relay.cli.argument import MOMENTS, parse_instant

ScopeOption = Annotated[
    str,
    typer.Option(
        metavar="SCOPE",
        help="The scope that the application submitted it in. Scopes are compared exactly, every blank and "
        "letter case counts, and only their digests are stored, so none can be listed.",
    ),
]
JobIdArgument = Annotated[str, typer.Argument(metavar="JOB_ID", help="As `jobs list` prints it.")]
StateOption = Annotated[
    list[JobState] | None,
    typer.Option("--state", help="Only jobs in this state; may be repeated.", show_default=False),
]
QueueOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only jobs of this queue.", show_default=False)
]
HandlerOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only jobs for this handler.", show_default=False)
]
SinceOption = Annotated[
    str | None,
    typer.Option(metavar="MOMENT", help=f"Submitted then or later: {MOMENTS}.", show_default=False),
]
UntilOption = Annotated[
    str | None, typer.Option(metavar="MOMENT", help="Submitted before then.", show_default=False)
]


def chosen(
    *,
    states: list[JobState] | None,
    queue: str | None,
    handler: str | None,
    since: str | None,
    until: str | None,
) -> JobFilter:
    """The filter that these options describe. Raises typer.BadParameter for what can be no filter."""
    return JobFilter(
        states=frozenset(states or ()),
        queue=_name(queue, "--queue"),
        handler=_name(handler, "--handler"),
        created_from=None if since is None else parse_instant(since, option="--since", ages=True),
        created_before=None if until is None else parse_instant(until, option="--until", ages=True),
    )


def _name(value: str | None, option: str) -> str | None:
    if value is not None:
        try:
            check_name(option, value)
        except JobSubmissionError as error:
            raise typer.BadParameter(error.rule, param_hint=f"'{option}'") from None
    return value
