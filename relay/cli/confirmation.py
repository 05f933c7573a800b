"""Asking before what cannot be taken back."""

import typer

from uow.errors import FixTheCodeError


class NotConfirmedError(FixTheCodeError):
    """A question was asked and nobody answered: there is no terminal, or the answer was broken off."""


def confirmed(question: str) -> bool:
    """The answer to a question on stderr; no is the default. Raises NotConfirmedError without any answer."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)  # the error begins on a line of its own
        raise NotConfirmedError(
            "nothing was done: the question was not answered; --yes does not ask"
        ) from None
