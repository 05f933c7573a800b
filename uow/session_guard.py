"""Keeps a session's transaction in the hands of the one unit, and the one task, that owns it."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from uow.savepoint import SavepointMarks
from uow.sql.dialect import database_of
from uow.sql.fault import Fault, fault_of
from uow.sql.isolation import begun_on_sqlite, commits_by_itself
from uow.sql.open_transaction import has_open_transaction
from uow.sql.sql_mode import require_safe_sql_mode
from uow.staged_items import StagedItems
from uow.unit_errors import (
    AutocommitError,
    ConcurrentUseError,
    ForeignCloseError,
    SeveralDatabasesError,
    TransactionOwnedError,
)

_RECOVERABLE_NOWHERE = frozenset({Fault.RETRY_TRANSACTION, Fault.CONNECTION_LOST})


class SessionGuard:
    """What is known about one open unit: who owns it, which connection it took, why it cannot commit.

    first_cause: the failure that made the unit rollback-only; None while it may commit.
    commit_sent: COMMIT was about to be sent.
    committed: COMMIT was answered with success.
    torn: the connection must not go back to the pool as it is.
    ended: the unit is over.
    """

    def __init__(self, staged: StagedItems) -> None:
        self.savepoints = SavepointMarks(staged)
        self.connections: list[Connection] = []
        self._borrowed: list[Connection] = []
        self.first_cause: BaseException | None = None
        self.commit_sent = False
        self.committed = False
        self.torn = False
        self.ended = False
        self._owner = asyncio.current_task()
        self._worker: asyncio.Task[object] | None = None
        self._flushes = 0
        self._was_open = False

    @property
    def connection(self) -> Connection | None:
        """The connection of the unit, once something was executed."""
        return self.connections[0] if self.connections else None

    def require_owner(self) -> None:
        """Raise ConcurrentUseError in any task but the one that opened the unit.

        When that task is over (a test's fixture opened the unit), the next one that uses it takes it on.
        """
        task = _running_task()
        if task is self._owner or (task is not None and task is self._worker):
            return
        if task is not None and (self._owner is None or self._owner.done()):
            self._owner = task
            return
        raise ConcurrentUseError(
            f"this unit of work was opened by {_named(self._owner)} and is used by {_named(task)}; give each "
            "task its own unit, and await the unit's statements one after the other instead of with "
            "asyncio.gather; on Python 3.11 asyncio.wait_for runs what it awaits in another task, so use "
            "`async with asyncio.timeout(seconds):` instead"
        )

    def turn_rollback_only(self, cause: BaseException) -> None:
        """From now on the unit can only roll back; the first cause stays."""
        if self.first_cause is None:
            self.first_cause = cause

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Within the block the running task may commit, roll back and close."""
        self._worker = asyncio.current_task()
        try:
            yield
        finally:
            self._worker = None

    @contextlib.contextmanager
    def flushing(self) -> Iterator[None]:
        """Within the block SQLAlchemy may roll back by itself, as it does when a flush fails."""
        self._flushes += 1
        try:
            yield
        finally:
            self._flushes -= 1

    @property
    def is_ending(self) -> bool:
        """Whether the running task is the one that ends the transaction."""
        return self._worker is not None and _running_task() is self._worker

    def refuse(self, error: TransactionOwnedError) -> None:
        """Refuse what ends the transaction unless the unit itself does it."""
        if not self.is_ending:
            self.turn_rollback_only(error)
            raise error

    def connection_begun(self, connection: Connection, *, borrowed: bool) -> None:
        """The session has taken `connection` and begun; refuse it when the unit cannot own that.

        A `borrowed` connection is the application's own: it is not closed at the end.
        """
        self.connections.append(connection)
        if borrowed:
            self._borrowed.append(connection)
        try:
            self._check(connection)
        except Exception as error:
            self.turn_rollback_only(error)
            raise

    def _check(self, connection: Connection) -> None:
        self.require_owner()
        if len(self.connections) > 1:
            raise SeveralDatabasesError(
                f"this unit of work already writes to {self.connections[0].engine.url!r} and cannot commit "
                f"{connection.engine.url!r} with it; use one unit for each database"
            )
        if commits_by_itself(connection):
            raise AutocommitError(_AUTOCOMMIT_TEXT)
        require_safe_sql_mode(connection)
        if database_of(connection).single_writer and not begun_on_sqlite(connection):
            # Python's own driver would begin at the first write only, and never for a savepoint.
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def require_usable_connection(self) -> None:
        """Raise ForeignCloseError when the code has thrown the connection away, and its work with it."""
        connection = self.connection
        if connection is not None and (connection.closed or connection.invalidated):
            raise ForeignCloseError(
                "the connection of this unit of work was closed or invalidated by the code, so nothing can "
                "be committed; remove the call"
            )
        if connection is not None:
            self.require_open_transaction(connection)

    def require_open_transaction(self, connection: Connection) -> None:
        """Refuse to go on when the transaction that was open on `connection` is over beneath SQLAlchemy."""
        still_open = has_open_transaction(connection)
        if still_open:
            self._was_open = True
        elif still_open is False and self._was_open and self.first_cause is None:
            self.refuse(TransactionOwnedError(_ENDED_BENEATH_TEXT))

    def connection_commits(self, error: TransactionOwnedError) -> None:
        """The connection is about to send COMMIT; refused with `error` unless the unit does it."""
        self._refuse_on_connection(error)
        self.commit_sent = True

    def connection_rolls_back(self, error: TransactionOwnedError) -> None:
        """The connection is about to send ROLLBACK; refused unless the unit or a failed flush does it."""
        if not self._flushes:
            self._refuse_on_connection(error)

    def _refuse_on_connection(self, error: TransactionOwnedError) -> None:
        # A refusal here leaves SQLAlchemy in the belief that the transaction is over.
        self.torn = self.torn or not self.is_ending
        self.refuse(error)

    def commit_failed(self) -> None:
        """Committing raised; find out whether COMMIT itself had succeeded before."""
        # SQLAlchemy keeps the transaction on the connection until COMMIT was answered with success.
        answered = self.connection is not None and self.connection.get_transaction() is None
        self.committed = self.commit_sent and answered
        self.torn = self.torn or (self.commit_sent and not answered)

    def give_back(self, session: Session) -> None:
        """Roll back what is not committed, close `session` and give every connection back.

        Each step is tried even when one before it fails or is cancelled.
        """
        with contextlib.ExitStack() as steps:
            steps.enter_context(self.ending())
            for connection in self.connections:
                if connection not in self._borrowed:
                    steps.callback(connection.close)
            steps.callback(session.close)
            for connection in self.connections:
                if self.torn and not connection.closed:
                    connection.invalidate()

    def statement_failed(self, connection: Connection, error: BaseException, *, lost: bool) -> None:
        """Note a failure that the transaction does not survive even when the code catches it."""
        if lost:
            self.turn_rollback_only(error)
        elif database_of(connection).error_aborts:
            if not connection.in_nested_transaction():
                self.turn_rollback_only(error)
        elif fault_of(error) in _RECOVERABLE_NOWHERE:
            self.turn_rollback_only(error)


_ENDED_BENEATH_TEXT = (
    "the transaction of this unit of work was committed or rolled back beneath it, by a procedure, by one of "
    "several statements in a text, by a conflict clause or on the driver's own connection; part of the work "
    "may be kept, and nothing more can be. Remove what ends the transaction"
)
_AUTOCOMMIT_TEXT = (
    "the engine or connection is in AUTOCOMMIT, so each statement would be kept by itself; create the "
    'sessionmaker on an engine without isolation_level="AUTOCOMMIT" and without autocommit in connect_args'
)


def _running_task() -> asyncio.Task[object] | None:
    """The task that runs here; None in a thread without an event loop, as `asyncio.to_thread` has."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _named(task: asyncio.Task[object] | None) -> str:
    if task is None:
        return f"no task (thread {threading.current_thread().name!r})"
    return f"task {task.get_name()!r}"
