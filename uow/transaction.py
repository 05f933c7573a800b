"""One outermost use of a unit of work: its session, its transaction and the way both end."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session

from uow.commit_outcome import is_refusal
from uow.connection_guard import let_go
from uow.participant import Participant, Staged
from uow.session_guard import SessionGuard
from uow.session_verbs import end_session, guard_session
from uow.sql.dialect import database_of
from uow.sql.isolation import is_set_to_autocommit
from uow.sql.step import finish_despite_cancellation
from uow.sql.transaction_status import current_transaction_id
from uow.staged_items import StagedItems
from uow.unit_errors import (
    AutocommitError,
    CommitOutcomeUnknownError,
    NoParticipantError,
    RollbackOnlyError,
    SessionInTransactionError,
    TwoPhaseSessionError,
    UnitNotActiveError,
)
from uow.unit_options import UnitOptions

_log: Final = logging.getLogger(__name__)
_MOST_FLUSHES: Final = 100


class OwnedTransaction:
    """A session of its own with one transaction; `finish` or `roll_back` ends both, exactly once."""

    def __init__(
        self, session: AsyncSession, participants: Sequence[Participant], options: UnitOptions
    ) -> None:
        self.session = session
        self.depth = 1
        self._participants = participants
        self._options = options
        self._staged = StagedItems()
        self._guard = SessionGuard(self._staged)
        self._written = False
        self._transaction_id: str | None = None

    @classmethod
    async def begin(
        cls,
        sessions: async_sessionmaker[AsyncSession],
        participants: Sequence[Participant],
        options: UnitOptions,
    ) -> "OwnedTransaction":
        """A new session with its transaction; no I/O. Raises what the session's setup is refused for."""
        session = sessions()
        _refuse_unfit(session.sync_session)
        owned = cls(session, participants, options)
        await session.run_sync(guard_session, owned._guard)
        return owned

    def require_owner(self) -> None:
        """Raise ConcurrentUseError in any task but the one that opened the unit."""
        self._guard.require_owner()

    def turn_rollback_only(self, cause: BaseException) -> None:
        """From now on `finish` rolls back."""
        self._guard.turn_rollback_only(cause)

    def stage(self, item: object, options: dict[str, Any]) -> Staged:
        """Let the participant that accepts `item` stage it."""
        if self._written:
            raise UnitNotActiveError("this unit of work is committing; stage before its block ends")
        for participant in self._participants:
            if participant.accepts(item):
                staged = participant.stage(item, **options)
                try:
                    return self._staged.add(participant, staged)
                except Exception as conflict:
                    self._guard.turn_rollback_only(conflict)
                    raise
        if isinstance(item, type):
            raise NoParticipantError(f"give an instance of {item.__qualname__}, not the class")
        raise NoParticipantError(
            f"no participant of this unit of work accepts {type(item).__qualname__}; register its contract, "
            "and build the unit with the participant that stages such things"
        )

    async def finish(self) -> None:
        """Flush, write what was staged, COMMIT and tell the participants; or roll back and raise why."""
        try:
            self._guard.require_owner()
            self._require_committable()
            await self._flush()
            await self.session.run_sync(self._write)
            self._require_committable()
        except BaseException:
            await self.roll_back()
            raise
        try:
            await finish_despite_cancellation(
                self._commit(), patience_seconds=self._options.commit_patience_seconds
            )
        finally:
            if self._guard.committed:
                self._tell_participants()
            if not self._guard.ended:
                await self.roll_back()

    async def roll_back(self) -> None:
        """End everything unsaved and give the connection back, within the cleanup limit; logs, never raises.

        A cancellation that comes meanwhile goes on afterwards.
        """
        try:
            await finish_despite_cancellation(self._close(), limit_seconds=self._options.cleanup_seconds)
        except TimeoutError:
            _log.warning(
                "rolling back took longer than %s s; the connection was dropped",
                self._options.cleanup_seconds,
            )

    def _require_committable(self) -> None:
        first_cause = self._guard.first_cause
        if first_cause is not None:
            raise RollbackOnlyError(first_cause) from first_cause
        self._guard.require_usable_connection()

    async def _flush(self) -> None:
        session = self.session
        for _ in range(_MOST_FLUSHES):
            if not (session.new or session.deleted or session.dirty):
                return
            await session.flush()

    def _write(self, session: Session) -> None:
        self._written = True
        for participant in self._participants:
            staged = self._staged.of(participant)
            if staged:
                transaction_id = participant.write(self._connection(session), staged)
                self._transaction_id = self._transaction_id or transaction_id
        connection = self._guard.connection
        if connection is not None and self._transaction_id is None:
            self._transaction_id = current_transaction_id(connection)

    def _connection(self, session: Session) -> Connection:
        if self._guard.connection is not None:
            return self._guard.connection
        only = {bind for bind in session.binds.values() if bind is not None}
        if session.bind is None and len(only) == 1:
            return session.connection(bind_arguments={"bind": only.pop()})
        return session.connection()

    async def _commit(self) -> None:
        try:
            with self._guard.ending():
                await self.session.commit()
        except BaseException as error:
            self._guard.commit_failed()
            if self._guard.committed:
                _log.warning("COMMIT succeeded; what came after it failed", exc_info=True)
                return
            if not self._guard.commit_sent or is_refusal(error):
                raise
            unknown = CommitOutcomeUnknownError(self._transaction_id, self._staged.keys())
            _log.error("%s", unknown)
            raise unknown from error
        self._guard.committed = True
        await self._close()

    async def _close(self) -> None:
        try:
            await self.session.run_sync(self._guard.give_back)
        except Exception:  # noqa: BLE001 - logged
            _log.warning("rolling back failed; the connection is dropped", exc_info=True)
            self._guard.torn = True
            await self.session.run_sync(self._guard.give_back)
        finally:
            self._guard.ended = True
            let_go(self._guard)
            end_session(self.session.sync_session)

    def _tell_participants(self) -> None:
        for participant in self._participants:
            staged = self._staged.of(participant)
            if staged:
                try:
                    participant.committed(staged)
                except Exception:  # noqa: BLE001 - logged
                    _log.exception("a participant failed after COMMIT; everything is kept")


def _refuse_unfit(session: Session) -> None:
    """Refuse what can be seen before a connection is taken."""
    if session.in_transaction():
        raise SessionInTransactionError(
            "the sessionmaker gave a session that already has a transaction; give the unit of work a "
            "sessionmaker that makes new sessions, and open other transactions on sessions of your own"
        )
    if session.twophase:
        raise TwoPhaseSessionError(
            "a unit of work commits in one phase; make its sessionmaker without twophase"
        )
    for bind in {session.bind, *session.binds.values()}:
        if not isinstance(bind, Engine | Connection):
            continue
        database_of(bind)
        if is_set_to_autocommit(bind):
            raise AutocommitError(
                "the engine or connection of the unit of work is in AUTOCOMMIT, so each statement would be "
                "kept by itself; bind the sessionmaker to an engine without it"
            )
        if isinstance(bind, Connection) and bind.in_transaction():
            raise SessionInTransactionError(
                "the sessionmaker is bound to a connection that already has a transaction; bind it to the "
                "engine, so that the unit of work can commit"
            )
