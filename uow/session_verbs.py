"""The gate at the session: what business code may call on it while a unit owns it, and afterwards."""

import functools
from typing import Any, Final, NoReturn

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session, SessionTransaction

from uow.connection_guard import put_under_guard
from uow.covered_verb import cover, uncover
from uow.session_guard import SessionGuard
from uow.unit_errors import (
    ForeignBeginError,
    ForeignCloseError,
    ForeignCommitError,
    ForeignRollbackError,
    TransactionOwnedError,
    UnitNotActiveError,
)

_ENDS_IT: Final[dict[str, tuple[type[TransactionOwnedError], str]]] = {
    "commit": (ForeignCommitError, "remove the call: the outermost block of the unit commits"),
    "prepare": (ForeignCommitError, "remove the call: the outermost block of the unit commits"),
    "rollback": (ForeignRollbackError, "raise an error, or undo a part with `session.begin_nested()`"),
    "close": (ForeignCloseError, "remove the call: the unit closes its session"),
    "reset": (ForeignCloseError, "remove the call: the unit closes its session"),
    "invalidate": (ForeignCloseError, "raise an error: the unit gives up its connection"),
}
_OWNER_ONLY: Final = ("execute", "scalar", "scalars", "connection")
_FLUSHES: Final = ("flush", "bulk_save_objects", "bulk_insert_mappings", "bulk_update_mappings")
_BEGINS: Final = "begin"
_SESSION_VERBS: Final = (*_ENDS_IT, *_OWNER_ONLY, *_FLUSHES, _BEGINS)
_AFTERWARDS_REFUSED: Final = ("commit", *_OWNER_ONLY, *_FLUSHES, _BEGINS)


def guard_session(session: Session, guard: SessionGuard) -> None:
    """Begin the transaction of `session` and put both under `guard`."""
    uncover(session, _SESSION_VERBS)

    def begun(_session: Session, transaction: SessionTransaction, connection: Connection) -> None:
        if transaction.parent is None and not guard.ended:
            borrowed = connection in {session.bind, *session.binds.values()}
            guard.connection_begun(connection, borrowed=borrowed)
            put_under_guard(connection, guard)

    event.listen(session, "after_begin", begun)
    session.begin()
    root = session.get_transaction()
    for verb, (error, advice) in _ENDS_IT.items():
        refuse = functools.partial(_refuse, guard, verb, error, advice)
        cover(session, verb, refuse)
        if hasattr(root, verb):
            cover(root, verb, refuse)
    for verb in _OWNER_ONLY:
        cover(session, verb, functools.partial(_require_owner, guard))
    for verb in _FLUSHES:
        _cover_flush(session, verb, guard)
    cover(session, _BEGINS, functools.partial(_begins, session, guard))


def end_session(session: Session) -> None:
    """Take the guard off a closed session; what would begin a transaction behind the unit is refused."""
    uncover(session, _SESSION_VERBS)
    for verb in _AFTERWARDS_REFUSED:
        setattr(session, verb, _refuse_afterwards)


def _cover_flush(session: Session, verb: str, guard: SessionGuard) -> None:
    original = getattr(session, verb)

    @functools.wraps(original)
    def covered(*arguments: Any, **options: Any) -> Any:
        guard.require_owner()
        root = session.get_transaction()
        try:
            with guard.flushing():
                return original(*arguments, **options)
        except BaseException as error:
            # A flush that fails outside a savepoint has already rolled back the whole transaction.
            if root is not None and not root.is_active:
                guard.turn_rollback_only(error)
            raise

    setattr(session, verb, covered)


def _refuse(
    guard: SessionGuard,
    verb: str,
    error: type[TransactionOwnedError],
    advice: str,
    *_arguments: Any,
    **_options: Any,
) -> None:
    guard.refuse(error(f"{verb}() on the session of a unit of work is refused; {advice}"))


def _require_owner(guard: SessionGuard, *_arguments: Any, **_options: Any) -> None:
    guard.require_owner()


def _begins(session: Session, guard: SessionGuard, nested: bool = False) -> None:
    guard.require_owner()
    if not nested and session.in_transaction():
        raise ForeignBeginError(
            "the unit of work has begun the transaction of this session already; remove the call, or use "
            "`async with session.begin_nested():` for a part that may fail by itself"
        )
    guard.savepoints.watch(session)


def _refuse_afterwards(*_arguments: Any, **_options: Any) -> NoReturn:
    raise UnitNotActiveError(
        "this session belonged to a unit of work that has ended; take `unit.session` inside the new block"
    )
