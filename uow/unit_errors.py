"""What a unit of work refuses or reports, each with what to do about it."""

from collections.abc import Hashable, Sequence
from typing import Final

from sqlalchemy.exc import StatementError

from uow.errors import FixTheCodeError, LookAtItError

_CAUSE_CHARACTERS: Final = 200
_KEYS_SHOWN: Final = 5


class UnitNotActiveError(FixTheCodeError):
    """The unit of work is not open; use it inside `async with unit:` or `unit.execute(operation)`."""


class ConcurrentUseError(FixTheCodeError):
    """A second task uses a unit of work that another task has open; give each task a unit of its own.

    The children of `asyncio.gather`, `create_task` and `TaskGroup` are tasks of their own. So is what
    `asyncio.wait_for` runs on Python 3.11: use `async with asyncio.timeout(seconds):` there.
    """


class NoParticipantError(FixTheCodeError):
    """Nothing that this unit of work was built with accepts the staged item; register it first."""


class SessionInTransactionError(FixTheCodeError):
    """The session, or the connection it is bound to, already has a transaction that the unit cannot own."""


class AutocommitError(FixTheCodeError):
    """The engine or connection commits each statement by itself, so that nothing could be rolled back."""


class SeveralDatabasesError(FixTheCodeError):
    """One unit of work touched two engines; one COMMIT cannot cover both, so give each its own unit."""


class TwoPhaseSessionError(FixTheCodeError):
    """The sessionmaker was made with `twophase=True`; a unit commits in one phase on one database."""


class TransactionOwnedError(FixTheCodeError):
    """Business code tried to end the transaction that the unit of work owns; the unit is rollback-only."""


class ForeignBeginError(FixTheCodeError):
    """Business code tried to begin a transaction; remove the call, or use `session.begin_nested()`."""


class ForeignCommitError(TransactionOwnedError):
    """Business code tried to commit; remove the call, the outermost block of the unit commits."""


class ForeignRollbackError(TransactionOwnedError):
    """Business code tried to roll back; raise an error, or undo a part with `session.begin_nested()`."""


class ForeignCloseError(TransactionOwnedError):
    """Business code tried to close the session; remove the call, the unit closes it."""


class RollbackOnlyError(FixTheCodeError):
    """Nothing was kept: an earlier failure had made the unit rollback-only and was then caught by the code.

    `first_cause` is that failure, also this error's `__cause__`. Let such failures pass, or put the part
    that may fail into a savepoint (`async with unit.session.begin_nested():`) without nesting the unit.
    """

    def __init__(self, first_cause: BaseException) -> None:
        super().__init__(
            "the unit of work was rolled back and nothing was kept, because of an earlier failure that the "
            f"code caught: {_described(first_cause)}"
        )
        self.first_cause = first_cause


class CommitOutcomeUnknownError(LookAtItError):
    """The connection was lost while COMMIT ran: all was kept or nothing was; do not repeat it blindly.

    transaction_id: the database's id of the transaction (PostgreSQL, once it has written), else None;
    `uow.commit_outcome.ask_commit_outcome(engine, transaction_id)` tells what became of it.
    keys: the identities of what the unit had staged; elsewhere look whether one of them is stored.
    An operation that keeps its event identities may be repeated: what was stored already is not added.
    """

    def __init__(self, transaction_id: str | None, keys: Sequence[Hashable]) -> None:
        shown = ", ".join(str(key) for key in keys[:_KEYS_SHOWN])
        more = f" and {len(keys) - _KEYS_SHOWN} more" if len(keys) > _KEYS_SHOWN else ""
        way = (
            f"ask_commit_outcome(engine, {transaction_id!r}) tells it"
            if transaction_id is not None
            else "look whether the staged identities are stored"
        )
        super().__init__(
            f"the connection was lost during COMMIT, so its outcome is unknown; {way}"
            + (f" (staged: {shown}{more})" if keys else "")
        )
        self.transaction_id = transaction_id
        self.keys = tuple(keys)


def _described(cause: BaseException) -> str:
    """Its class and, unless it quotes a statement with its values, the beginning of its text."""
    name = f"{type(cause).__module__}.{type(cause).__qualname__}".removeprefix("builtins.")
    if isinstance(cause, StatementError):
        return f"{name} ({type(cause.orig).__qualname__})"
    text = " ".join(str(cause).split())[:_CAUSE_CHARACTERS]
    return f"{name}: {text}" if text else name
