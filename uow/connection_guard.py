"""The gate at the connection: every COMMIT, ROLLBACK and statement of a unit passes here, however it came."""

import functools
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, event
from sqlalchemy.engine import ExceptionContext

from uow.covered_verb import cover, uncover
from uow.session_guard import SessionGuard
from uow.sql.dialect import database_of
from uow.sql.transaction_control import commits, opened_savepoint, rolled_back_savepoint, rolls_back
from uow.unit_errors import ForeignCloseError, ForeignCommitError, ForeignRollbackError, TransactionOwnedError

# Kept on the connection itself, so that an abandoned unit leaves nothing alive.
_GUARD: Final = "_selfmanaged_guard"

_COMMIT_TEXT = (
    "the unit of work owns this transaction and commits it when its outermost block ends; remove the commit"
)
_ROLLBACK_TEXT = (
    "the unit of work owns this transaction; raise an error to roll it back, or undo a part of it with "
    "`async with session.begin_nested():`"
)
_CLOSE_TEXT = "the unit of work owns this connection and gives it back at its end; remove the call"
# Refused at the call these leave SQLAlchemy's state whole; the events below catch the other ways.
_REFUSED: Final[dict[str, Callable[[], TransactionOwnedError]]] = {
    "commit": lambda: ForeignCommitError(_COMMIT_TEXT),
    "rollback": lambda: ForeignRollbackError(_ROLLBACK_TEXT),
    "close": lambda: ForeignCloseError(_CLOSE_TEXT),
    "detach": lambda: ForeignCloseError(_CLOSE_TEXT),
}


def put_under_guard(connection: Connection, guard: SessionGuard) -> None:
    """From now on `guard` hears what happens on `connection`; the engine is listened to once."""
    engine = connection.engine
    if not event.contains(engine, "commit", _commit):
        event.listen(engine, "commit", _commit)
        event.listen(engine, "rollback", _rollback)
        event.listen(engine, "before_cursor_execute", _execute)
        event.listen(engine, "after_cursor_execute", _executed)
    if not event.contains(connection.dialect, "handle_error", _error):
        event.listen(connection.dialect, "handle_error", _error)
    setattr(connection, _GUARD, guard)
    for verb, error in _REFUSED.items():
        cover(connection, verb, functools.partial(_refuse, guard, error))


def let_go(guard: SessionGuard) -> None:
    """`guard` hears no more of its connections."""
    for connection in guard.connections:
        uncover(connection, (_GUARD, *_REFUSED))


def _refuse(
    guard: SessionGuard, error: Callable[[], TransactionOwnedError], *_arguments: Any, **_options: Any
) -> None:
    guard.refuse(error())


def _commit(connection: Connection) -> None:
    guard = _guard_of(connection)
    if guard is not None:
        guard.connection_commits(ForeignCommitError(_COMMIT_TEXT))


def _rollback(connection: Connection) -> None:
    guard = _guard_of(connection)
    if guard is not None:
        guard.connection_rolls_back(ForeignRollbackError(_ROLLBACK_TEXT))


def _execute(connection: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
    guard = _guard_of(connection)
    if guard is None:
        return
    guard.require_owner()
    guard.require_open_transaction(connection)
    if commits(statement, database_of(connection)):
        guard.refuse(ForeignCommitError(f"this statement commits or begins a transaction; {_COMMIT_TEXT}"))
    if rolls_back(statement):
        guard.refuse(ForeignRollbackError(_ROLLBACK_TEXT))
    if (opened := opened_savepoint(statement)) is not None:
        guard.savepoints.opened(opened)
    elif (left := rolled_back_savepoint(statement)) is not None:
        guard.savepoints.rolled_back_to(left)


def _executed(connection: Connection, *_rest: Any) -> None:
    guard = _guard_of(connection)
    if guard is not None:
        guard.require_open_transaction(connection)


def _error(context: ExceptionContext) -> None:
    connection = context.connection
    guard = None if connection is None else _guard_of(connection)
    if connection is not None and guard is not None:
        error = context.sqlalchemy_exception or context.original_exception
        guard.statement_failed(connection, error, lost=context.is_disconnect)


def _guard_of(connection: Connection) -> SessionGuard | None:
    guard: SessionGuard | None = getattr(connection, _GUARD, None)
    return guard
