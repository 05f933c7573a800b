"""`execute(operation, attempts=n)` runs the whole operation again after a transient failure, else never."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from tests.support.databases import create_tables
from tests.support.unit_of_work import Model, Note, NoteParticipant, Order, checked_out, stored
from uow import CommitOutcomeUnknownError, RollbackOnlyError, SelfManagedUnitOfWork
from uow.sql.dialect import database_of
from uow.sql.fault import Fault, fault_of


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    await create_tables(engine, Model.metadata)
    yield engine
    assert checked_out(engine) == 0


@pytest.fixture
def notes() -> NoteParticipant:
    return NoteParticipant()


@pytest.fixture
def unit(ready: AsyncEngine, notes: NoteParticipant) -> SelfManagedUnitOfWork:
    return SelfManagedUnitOfWork(async_sessionmaker(ready), [notes])


class DeadlockError(Exception):
    """As a driver says it."""

    sqlstate = "40P01"


def deadlock() -> DBAPIError:
    return DBAPIError("UPDATE", None, DeadlockError())


async def test_a_transient_failure_runs_the_whole_operation_again_in_a_fresh_session(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork, notes: NoteParticipant
) -> None:
    sessions = []

    async def operation(inner: SelfManagedUnitOfWork) -> str:
        sessions.append(inner.session)
        inner.session.add(Order(id=len(sessions)))
        await inner.session.flush()
        inner.enqueue(Note(1))
        if len(sessions) < 3:
            raise deadlock()
        return "kept"

    assert await unit.execute(operation, attempts=3) == "kept"
    assert len(set(map(id, sessions))) == 3
    assert await stored(ready, Order) == [3]
    assert await stored(ready) == notes.told == [1]


async def test_the_last_attempts_failure_is_raised(unit: SelfManagedUnitOfWork) -> None:
    calls = 0

    async def operation(_unit: SelfManagedUnitOfWork) -> None:
        nonlocal calls
        calls += 1
        raise deadlock()

    with pytest.raises(DBAPIError):
        await unit.execute(operation, attempts=2)
    assert calls == 2
    with pytest.raises(DBAPIError):
        await unit.execute(operation)
    assert calls == 3


async def _raise(error: BaseException) -> None:
    raise error


def _from(error: Exception, cause: BaseException | None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ValueError("business"), False),
        (ConnectionError("the business's own HTTP call"), False),
        (IntegrityError("INSERT", None, Exception()), False),
        (_from(ValueError("while handling"), None), False),
        (_from(LookupError("translated by a repository"), deadlock()), True),
        (RollbackOnlyError(ValueError()), False),
        (_from(RollbackOnlyError(deadlock()), deadlock()), True),
        (_from(CommitOutcomeUnknownError("7", [1]), deadlock()), False),
        (asyncio.CancelledError(), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
async def test_only_a_failure_of_the_database_that_kept_nothing_runs_again(
    error: BaseException, again: bool
) -> None:
    calls = 0

    async def operation(_unit: SelfManagedUnitOfWork) -> None:
        nonlocal calls
        calls += 1
        raise error

    unit = SelfManagedUnitOfWork(async_sessionmaker())
    with pytest.raises(type(error)):
        await unit.execute(operation, attempts=2)
    assert calls == (2 if again else 1)


async def test_a_nested_execute_leaves_repeating_to_the_outermost(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    inner_calls = outer_calls = 0

    async def inner(_unit: SelfManagedUnitOfWork) -> None:
        nonlocal inner_calls
        inner_calls += 1
        if inner_calls == 1:
            raise deadlock()

    async def outer(joined: SelfManagedUnitOfWork) -> None:
        nonlocal outer_calls
        outer_calls += 1
        joined.session.add(Order(id=outer_calls))
        await joined.execute(inner, attempts=9)

    await unit.execute(outer, attempts=2)
    assert (inner_calls, outer_calls) == (2, 2)
    assert await stored(ready, Order) == [2]


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
async def test_a_real_deadlock_that_the_code_swallows_keeps_nothing_of_the_loser(
    ready: AsyncEngine,
) -> None:
    """MariaDB rolls the whole transaction back and begins another without a word."""
    async with ready.begin() as connection:
        await connection.execute(insert(Order), [{"id": 1, "customer": ""}, {"id": 2, "customer": ""}])
    locked = [asyncio.Event(), asyncio.Event()]

    async def cross(which: int) -> bool:
        unit = SelfManagedUnitOfWork(async_sessionmaker(ready))
        first, second = (1, 2) if which == 0 else (2, 1)
        swallowed = False
        try:
            async with unit:
                await unit.session.execute(insert(Order).values(id=10 + which))
                await unit.session.execute(update(Order).where(Order.id == first).values(customer=str(which)))
                locked[which].set()
                await locked[1 - which].wait()
                try:
                    await unit.session.execute(
                        update(Order).where(Order.id == second).values(customer=str(which))
                    )
                except DBAPIError as error:
                    swallowed = fault_of(error) is Fault.RETRY_TRANSACTION
                    if not database_of(ready).error_aborts:
                        await unit.session.execute(insert(Order).values(id=20 + which))
        except RollbackOnlyError:
            assert swallowed
            return False
        return True

    results = await asyncio.gather(cross(0), cross(1))
    assert sorted(results) == [False, True]
    winner = results.index(True)
    assert await stored(ready, Order) == [1, 2, 10 + winner]


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
async def test_a_connection_killed_before_commit_keeps_nothing_and_may_run_again(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    kill = {"postgresql": "SELECT pg_terminate_backend(:id)", "mysql": "KILL :id"}
    own_id = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}
    name = database_of(ready).name
    calls = 0

    async def operation(inner: SelfManagedUnitOfWork) -> None:
        nonlocal calls
        calls += 1
        await inner.session.execute(insert(Order).values(id=calls))
        if calls == 1:
            number = await inner.session.scalar(text(own_id[name]))
            async with ready.connect() as other:
                await other.execute(text(kill[name].replace(":id", str(number))))
        await inner.session.execute(select(Order))

    await unit.execute(operation, attempts=2)
    assert calls == 2
    assert await stored(ready, Order) == [2]
