"""Arguments and options that several commands share."""

import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from uow.ticks import UtcInstant

MOMENTS: Final = "2026-01-31, 2026-01-31T10:00:00Z or an age such as 90m, 2h, 7d"
"""What `parse_moment` takes, for help and errors."""
INSTANTS: Final = "2026-01-31 or 2026-01-31T10:00:00Z"
"""What `parse_instant` takes, for help and errors."""

AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:APP",
        help="Import string of the App, or of a function returning one, like [cyan]shop.messaging:app[/].",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for programs.")]
OperatorOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Who is recorded as having done it. Default: SELFMANAGED_OPERATOR, or the name of the login.",
        show_default=False,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_AGE: Final = re.compile(r"(\d+)([smhd])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_moment(text: str, *, option: str) -> datetime:
    """An aware moment from ISO 8601 text (UTC unless it names an offset) or an age such as `90m` or `7d`.

    Raises typer.BadParameter that names `option`.
    """
    try:
        if match := _AGE.fullmatch(text):
            return datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
        return _aware(text)
    except (ValueError, OverflowError):
        raise _refused(text, option, MOMENTS) from None


def parse_instant(text: str, *, option: str, ages: bool = False) -> UtcInstant:
    """An instant from ISO 8601 text, exact to 100 ns, or with `ages` from all that `parse_moment` takes.

    Raises typer.BadParameter that names `option`.
    """
    with contextlib.suppress(ValueError):
        return UtcInstant.parse(text)
    try:
        moment = parse_moment(text, option=option) if ages else _aware(text)
        return UtcInstant.from_datetime(moment)
    except (ValueError, OverflowError):
        raise _refused(text, option, MOMENTS if ages else INSTANTS) from None


def _aware(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refused(text: str, option: str, expected: str) -> typer.BadParameter:
    return typer.BadParameter(f"{text!r} is no moment; expected {expected}", param_hint=f"'{option}'")


def examples(*lines: str) -> str:
    """The end of a `--help` page."""
    return "\n\n".join(["[bold]Examples[/]", *(f"  [cyan]{line}[/]" for line in lines)])
