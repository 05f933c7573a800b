"""Sessions of our own: an independent operation takes nothing of its caller's along."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from jobs.errors import UnfitSessionError
from uow.sql.dialect import database_of
from uow.sql.fault import Fault, fault_of
from uow.sql.isolation import is_set_to_autocommit
from uow.sql.sqlite import BEGIN_OPTION
from uow.sql.step import finish_despite_cancellation

T = TypeVar("T")

_ATTEMPTS: Final = 5


class OwnSessions:
    """Runs each step in the transaction of a new session of the factory, committed and closed at its end.

    A deadlock, a serialization failure or a busy database runs the step again in another session, five
    times at most. `table` leads to the engine where the factory's sessions have several.
    """

    def __init__(self, sessions: Callable[[], AsyncSession], table: Table) -> None:
        self._sessions = sessions
        self._table = table
        self._in_use: set[Session] = set()

    async def run(
        self,
        step: Callable[[Connection], T],
        *,
        beside: AsyncSession | None = None,
        reads_only: bool = False,
    ) -> T:
        """What `step` returns, once it is committed; a cancelled caller leaves no connection behind.

        Raises UnfitSessionError when the factory gives a session that is not new, such as `beside`; that
        session is left as it is. A step that only reads waits for no writer, also where only one may write.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            session = self._sessions()
            _refuse_unfit(session.sync_session, None if beside is None else beside.sync_session, self._in_use)
            self._in_use.add(session.sync_session)
            try:
                return await finish_despite_cancellation(self._run_once(session, step, reads_only))
            except Exception as error:
                if attempt == _ATTEMPTS or fault_of(error) is not Fault.RETRY_TRANSACTION:
                    raise
                await asyncio.sleep(random.random() * 0.02 * 2**attempt)  # noqa: S311 - spreads collisions
        raise AssertionError("unreachable")

    async def _run_once(self, session: AsyncSession, step: Callable[[Connection], T], reads_only: bool) -> T:
        try:
            async with session, session.begin():
                return await session.run_sync(lambda own: step(self._connection(own, reads_only)))
        finally:
            self._in_use.discard(session.sync_session)

    def _connection(self, session: Session, reads_only: bool) -> Connection:
        bind = _bind_of(session, self._table)
        database = database_of(bind)
        options: dict[str, Any] = {}
        if database.claim_isolation is not None:
            options["isolation_level"] = database.claim_isolation
        if reads_only and database.single_writer:
            options[BEGIN_OPTION] = "DEFERRED"
        return session.connection(bind_arguments={"bind": bind}, execution_options=options)


def _bind_of(session: Session, table: Table) -> Engine | Connection:
    only = set(session.binds.values())
    if session.bind is None and len(only) == 1 and table not in session.binds:
        return next(iter(only))
    return session.get_bind(clause=table)


def _refuse_unfit(session: Session, beside: Session | None, in_use: set[Session]) -> None:
    fault = _fault(session, beside, in_use)
    if fault is not None:
        raise UnfitSessionError(
            f"the sessionmaker gave a session that {fault}; give the client a sessionmaker that makes a new "
            "session each time, bound to the engine, or stage the job in the unit of work"
        )


def _fault(session: Session, beside: Session | None, in_use: set[Session]) -> str | None:
    faults = {
        "is in use already": session is beside or session in in_use,
        "has pending changes": bool(session.new or session.dirty or session.deleted),
        "has a transaction": session.in_transaction(),
        "holds loaded objects": bool(len(session.identity_map)),
        "commits in two phases": session.twophase,
    }
    return next((fault for fault, found in faults.items() if found), None) or _fault_of_binds(session)


def _fault_of_binds(session: Session) -> str | None:
    for bind in {session.bind, *session.binds.values()}:
        if isinstance(bind, Connection) and bind.in_transaction():
            return "is bound to a connection with a transaction"
        if isinstance(bind, Engine | Connection) and is_set_to_autocommit(bind):
            return "is in AUTOCOMMIT"
    return None
