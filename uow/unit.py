"""The unit of work: one session, one transaction, and the place where events and jobs are staged."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from uow.explicit_causes import explicit_causes
from uow.participant import Participant, Staged
from uow.sql.fault import is_transient
from uow.transaction import OwnedTransaction
from uow.unit_errors import CommitOutcomeUnknownError, UnitNotActiveError
from uow.unit_options import UnitOptions

T = TypeVar("T")

_LONGEST_PAUSE_SECONDS: Final = 1.0


class SelfManagedUnitOfWork:
    """Business rows and everything staged are kept by one COMMIT, or nothing is.

    Scoped: make one per request, message or job; it may be used again after it ended. `async with unit:`
    commits when its outermost block ends cleanly and rolls back when an exception leaves it; blocks and
    `execute` inside join and commit nothing. An exception that leaves a joined block makes the unit
    rollback-only, even when it is caught: the outermost block then raises RollbackOnlyError.

    One task uses it at a time (ConcurrentUseError). The transaction is the unit's own: commit, rollback
    and close of the session are refused (TransactionOwnedError) and make the unit rollback-only; `flush`
    and `begin_nested` are allowed, and what is staged in a savepoint that rolls back goes with it.
    """

    def __init__(
        self,
        sessions: async_sessionmaker[AsyncSession],
        participants: Sequence[Participant] = (),
        *,
        options: UnitOptions | None = None,
    ) -> None:
        self._sessions = sessions
        self._participants = tuple(participants)
        self._options = options or UnitOptions()
        self._current: OwnedTransaction | None = None

    @property
    def active(self) -> bool:
        """Whether the unit is open, in whatever task."""
        return self._current is not None

    @property
    def session(self) -> AsyncSession:
        """The session of the open unit; another one each time the unit is opened.

        Raises UnitNotActiveError outside a unit, ConcurrentUseError in another task.
        """
        return self._opened("unit.session").session

    def enqueue(self, event: object, *, ordering_key: str | None = None) -> None:
        """Stage `event` to be published once the unit has committed; serialized now, written at the end.

        No I/O. Events with the same ordering key are published in the order in which they were enqueued.
        Raises what the contract finds wrong with the event, a conflict error when another event with the
        same id was staged before (the unit then fails), and UnitNotActiveError outside a unit.
        """
        self._opened("enqueue()").stage(event, {"ordering_key": ordering_key})

    def stage(self, item: object, **options: Any) -> Staged:
        """Hand `item` to the first participant that accepts it; what is staged under its identity.

        `options` go to the participant. Raises NoParticipantError when there is none; the rest as `enqueue`.
        """
        return self._opened("stage()").stage(item, options)

    async def execute(
        self, operation: Callable[["SelfManagedUnitOfWork"], Awaitable[T]], *, attempts: int = 1
    ) -> T:
        """Run `operation(unit)` inside the unit; returns its result once everything is committed.

        With `attempts` above 1 the whole operation runs again, in a fresh session, when the database
        reports a deadlock, a serialization failure, a busy file or a lost connection; then make the
        identities of its events outside of it. An unknown outcome of COMMIT is never repeated. Within an
        open unit it joins, and `attempts` is the outermost's business.
        """
        if attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {attempts}")
        if self._current is not None:
            attempts = 1
        for attempt in range(1, attempts + 1):
            try:
                async with self:
                    return await operation(self)
            except Exception as error:
                if attempt == attempts or not _may_run_again(error):
                    raise
            pause = min(0.02 * 2.0**attempt, _LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause * random.random())  # noqa: S311 - spreads collisions
        raise AssertionError("unreachable")

    async def __aenter__(self) -> Self:
        if self._current is None:
            self._current = await OwnedTransaction.begin(self._sessions, self._participants, self._options)
        else:
            self._current.require_owner()
            self._current.depth += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        current = self._opened("leaving it", anyone=True)
        if current.depth > 1:
            current.depth -= 1
            if error is not None:
                current.turn_rollback_only(error)
            return
        try:
            if error is not None:
                await current.roll_back()
            else:
                await current.finish()
        finally:
            self._current = None

    def _opened(self, what: str, *, anyone: bool = False) -> OwnedTransaction:
        if self._current is None:
            raise UnitNotActiveError(
                f"{what} needs an open unit of work: use it inside `async with unit:` or in the operation "
                "given to `unit.execute(operation)`"
            )
        if not anyone:
            self._current.require_owner()
        return self._current


def _may_run_again(error: BaseException) -> bool:
    """Whether `error` is, or was explicitly raised from, a transient failure of the database."""
    for cause in explicit_causes(error):
        if isinstance(cause, CommitOutcomeUnknownError):
            return False
        if isinstance(cause, DBAPIError):
            return is_transient(cause)
    return False
