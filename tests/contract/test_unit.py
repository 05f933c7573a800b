"""The unit of work keeps everything or nothing, the same on every database."""

# ruff: noqa: PT012 - what raises is the end of the unit's block, so the block belongs inside

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from tests.support.databases import create_tables
from tests.support.statements import recorded_statements
from tests.support.unit_of_work import (
    Model,
    Note,
    NoteConflictError,
    NoteParticipant,
    Order,
    checked_out,
    stored,
)
from uow import (
    ConcurrentUseError,
    NoParticipantError,
    RollbackOnlyError,
    SelfManagedUnitOfWork,
    UnitNotActiveError,
)
from uow.sql.dialect import database_of


class BusinessError(Exception):
    """A failure of the business."""


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
    return SelfManagedUnitOfWork(async_sessionmaker(ready, expire_on_commit=False), [notes])


async def test_a_clean_block_keeps_business_rows_and_staged_things(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork, notes: NoteParticipant
) -> None:
    async with unit:
        unit.session.add(Order(id=1))
        unit.enqueue(Note(1))
        unit.stage(Note(2))
        assert notes.told == []
    assert await stored(ready, Order) == [1]
    assert await stored(ready) == [1, 2]
    assert notes.writes == [(1, 2)]
    assert notes.told == [1, 2]
    assert not unit.active


async def test_an_exception_leaves_as_it_is_and_keeps_nothing(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork, notes: NoteParticipant
) -> None:
    failure = BusinessError("no")
    with pytest.raises(BusinessError) as caught:
        async with unit:
            unit.session.add(Order(id=1))
            await unit.session.flush()
            unit.enqueue(Note(1))
            raise failure
    assert caught.value is failure
    assert await stored(ready, Order) == await stored(ready) == []
    assert notes.writes == notes.told == []


async def test_the_unit_is_clean_and_usable_again_after_success_and_after_failure(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.enqueue(Note(1))
        first = unit.session
    with pytest.raises(BusinessError):
        async with unit:
            unit.session.add(Order(id=2))
            unit.enqueue(Note(2))
            raise BusinessError
    async with unit:
        assert unit.session is not first
        assert list(unit.session.new) == []
        unit.enqueue(Note(3))
    assert await stored(ready) == [1, 3]
    assert await stored(ready, Order) == []


async def test_execute_returns_the_operations_result_after_the_commit(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async def place(inner: SelfManagedUnitOfWork) -> Order:
        assert inner is unit
        order = Order(id=7)
        inner.session.add(order)
        return order

    order = await unit.execute(place)
    assert order.customer == "Zoë"
    assert await stored(ready, Order) == [7]


async def test_a_unit_that_only_enqueues_and_one_that_does_nothing(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    with recorded_statements(ready) as statements:
        async with unit:
            pass
    assert statements == []
    async with unit:
        unit.enqueue(Note(1))
    assert await stored(ready) == [1]


async def test_staging_does_no_io_and_hundred_things_are_written_by_one_statement(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    with recorded_statements(ready) as statements:
        async with unit:
            for number in range(100):
                unit.enqueue(Note(number))
            assert statements == []
            assert checked_out(ready) == 0
    # PostgreSQL is asked for the transaction's id when no participant did so on its way.
    assert len(statements) == (2 if database_of(ready).transaction_status else 1)
    with recorded_statements(ready) as statements:
        unit = SelfManagedUnitOfWork(async_sessionmaker(ready), [NoteParticipant(asks_transaction_id=True)])
        async with unit:
            unit.enqueue(Note(100))
    assert len(statements) == (2 if database_of(ready).transaction_status else 1)


async def test_nested_use_joins_and_commits_nothing(ready: AsyncEngine, unit: SelfManagedUnitOfWork) -> None:
    async def inner(joined: SelfManagedUnitOfWork) -> str:
        joined.session.add(Order(id=2))
        async with joined:
            joined.enqueue(Note(2))
        return "done"

    async with unit:
        outer_session = unit.session
        unit.session.add(Order(id=1))
        assert await unit.execute(inner, attempts=9) == "done"
        assert unit.active
        assert unit.session is outer_session
        assert list(unit.session.new)
        assert await stored(ready, Order) == []
    assert await stored(ready, Order) == [1, 2]
    assert await stored(ready) == [2]


@pytest.mark.parametrize("failure", [BusinessError("too late"), asyncio.CancelledError()])
async def test_a_nested_failure_that_is_caught_makes_the_unit_rollback_only(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork, failure: BaseException
) -> None:
    with pytest.raises(RollbackOnlyError, match=f"{type(failure).__name__}.*{failure}") as caught:
        async with unit:
            unit.session.add(Order(id=1))
            with pytest.raises(type(failure)):
                async with unit:
                    raise failure
            with pytest.raises(ValueError, match="second"):
                async with unit:
                    raise ValueError("second")
            unit.enqueue(Note(1))
    assert caught.value.first_cause is failure
    assert caught.value.__cause__ is failure
    assert await stored(ready, Order) == await stored(ready) == []
    async with unit:
        unit.enqueue(Note(1))
    assert await stored(ready) == [1]


async def test_a_nested_execute_that_fails_deep_inside_still_names_the_first_cause(
    unit: SelfManagedUnitOfWork,
) -> None:
    async def deep(_unit: SelfManagedUnitOfWork) -> None:
        raise BusinessError("deep")

    async def middle(joined: SelfManagedUnitOfWork) -> None:
        try:
            await joined.execute(deep)
        except BusinessError:
            raise KeyError("middle") from None

    with pytest.raises(RollbackOnlyError) as caught:
        async with unit:
            with pytest.raises(KeyError):
                await unit.execute(middle)
    assert isinstance(caught.value.first_cause, BusinessError)


async def test_an_exception_that_leaves_the_outermost_block_wins_over_rollback_only(
    unit: SelfManagedUnitOfWork,
) -> None:
    with pytest.raises(KeyError):
        async with unit:
            with pytest.raises(BusinessError):
                async with unit:
                    raise BusinessError
            raise KeyError("own")


async def test_equal_things_with_one_identity_are_one_row_and_different_ones_fail_the_unit(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork, notes: NoteParticipant
) -> None:
    async with unit:
        first = unit.stage(Note(1))
        assert unit.stage(Note(1)) is first
    assert await stored(ready) == [1]
    with pytest.raises(NoteConflictError):
        async with unit:
            unit.enqueue(Note(2))
            unit.enqueue(Note(2, "other"))
    with pytest.raises(RollbackOnlyError) as caught:
        async with unit:
            unit.enqueue(Note(3))
            with pytest.raises(NoteConflictError):
                unit.enqueue(Note(3, "other"))
    assert isinstance(caught.value.first_cause, NoteConflictError)
    assert await stored(ready) == [1]
    assert notes.writes == [(1,)]


async def test_what_a_participant_raises_while_writing_rolls_everything_back(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork, notes: NoteParticipant
) -> None:
    async with unit:
        unit.enqueue(Note(1))
    with pytest.raises(IntegrityError):
        async with unit:
            unit.session.add(Order(id=1))
            unit.enqueue(Note(1))
    assert await stored(ready, Order) == []
    assert notes.told == [1]


async def test_a_failed_flush_at_the_end_rolls_everything_back(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork, notes: NoteParticipant
) -> None:
    async with unit:
        unit.session.add(Order(id=1))
    with pytest.raises(IntegrityError):
        async with unit:
            unit.session.add(Order(id=1))
            unit.enqueue(Note(1))
    assert await stored(ready) == []
    assert notes.writes == []


async def test_a_failed_flush_that_is_caught_makes_the_unit_rollback_only(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.session.add(Order(id=1))
    with pytest.raises(RollbackOnlyError) as caught:
        async with unit:
            unit.enqueue(Note(1))
            unit.session.add(Order(id=1))
            with pytest.raises(IntegrityError):
                await unit.session.flush()
    assert isinstance(caught.value.first_cause, IntegrityError)
    assert "Zoë" not in str(caught.value)
    assert await stored(ready) == []


async def test_a_failed_statement_that_is_caught_never_passes_for_a_commit(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    """PostgreSQL answers the COMMIT of an aborted transaction with success and keeps nothing."""
    async with unit:
        unit.session.add(Order(id=1))

    async def go_on() -> None:
        async with unit:
            await unit.session.execute(insert(Order).values(id=2))
            with pytest.raises(IntegrityError):
                await unit.session.execute(insert(Order).values(id=1))

    if database_of(ready).error_aborts:
        with pytest.raises(RollbackOnlyError):
            await go_on()
        assert await stored(ready, Order) == [1]
    else:
        await go_on()
        assert await stored(ready, Order) == [1, 2]


async def test_after_commit_callbacks_never_fail_the_operation(
    ready: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    class Loud(NoteParticipant):
        def committed(self, staged: object) -> None:
            raise BusinessError("wake-up failed")

    unit = SelfManagedUnitOfWork(async_sessionmaker(ready), [Loud()])
    with caplog.at_level(logging.ERROR):
        async with unit:
            unit.enqueue(Note(1))
    assert await stored(ready) == [1]
    assert "wake-up failed" in caplog.text


async def test_enqueue_and_session_outside_a_unit_are_refused(unit: SelfManagedUnitOfWork) -> None:
    with pytest.raises(UnitNotActiveError, match=r"enqueue\(\) needs an open unit of work"):
        unit.enqueue(Note(1))
    with pytest.raises(UnitNotActiveError, match=r"unit\.session"):
        _ = unit.session
    async with unit:
        pass
    with pytest.raises(UnitNotActiveError):
        unit.stage(Note(1))


async def test_something_no_participant_accepts_is_refused_by_its_class(unit: SelfManagedUnitOfWork) -> None:
    async with unit:
        with pytest.raises(NoParticipantError, match="accepts Order; register"):
            unit.enqueue(Order(id=1))
        with pytest.raises(NoParticipantError, match="give an instance of Order, not the class"):
            unit.enqueue(Order)


async def test_staging_while_the_unit_writes_is_refused_and_not_lost_silently(ready: AsyncEngine) -> None:
    class Greedy(NoteParticipant):
        def write(self, connection: object, staged: object) -> str | None:
            unit.enqueue(Note(99))
            return None

    unit = SelfManagedUnitOfWork(async_sessionmaker(ready), [Greedy()])
    with pytest.raises(UnitNotActiveError, match="committing"):
        async with unit:
            unit.enqueue(Note(1))
    assert await stored(ready) == []


async def test_a_second_task_is_refused_while_the_first_goes_on(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async def other() -> None:
        for use in (lambda: unit.session, lambda: unit.enqueue(Note(5))):
            with pytest.raises(ConcurrentUseError, match=r"first-task.*second-task"):
                use()
        with pytest.raises(ConcurrentUseError):
            async with unit:
                pass
        with pytest.raises(ConcurrentUseError):
            await unit.execute(lambda _unit: asyncio.sleep(0))

    async def first() -> None:
        async with unit:
            await asyncio.create_task(other(), name="second-task")
            unit.enqueue(Note(1))

    await asyncio.create_task(first(), name="first-task")
    assert await stored(ready) == [1]


async def test_children_of_gather_on_the_units_session_are_refused_and_nothing_is_kept(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    with pytest.raises(ConcurrentUseError, match=r"asyncio\.gather"):
        async with unit:
            session = unit.session
            await asyncio.gather(
                session.execute(insert(Order).values(id=1)), session.execute(insert(Order).values(id=2))
            )
    assert await stored(ready, Order) == []


async def test_a_thread_that_uses_the_unit_of_a_task_is_told_so(unit: SelfManagedUnitOfWork) -> None:
    async with unit:
        with pytest.raises(ConcurrentUseError, match="no task"):
            await asyncio.to_thread(unit.stage, Note(1))
        with pytest.raises(ConcurrentUseError, match="no task"):
            await asyncio.to_thread(lambda: unit.session)
        unit.stage(Note(2))


async def test_the_refusal_of_a_second_task_names_timeout_for_python_3_11(
    unit: SelfManagedUnitOfWork,
) -> None:
    async with unit:
        session = unit.session

        async def other_task() -> None:
            for use in (
                lambda: session.execute(select(Order)),
                lambda: session.scalar(select(Order)),
                lambda: session.get(Order, 1),
                session.flush,
                session.connection,
                lambda: session.begin_nested().start(),
            ):
                with pytest.raises(ConcurrentUseError, match=r"asyncio\.wait_for.*asyncio\.timeout"):
                    await use()

        await asyncio.create_task(other_task())
        async with asyncio.timeout(10):
            await session.execute(select(Order))


async def test_a_unit_whose_task_is_over_is_taken_on_by_the_next_one(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    """Test frameworks open fixtures in a task of their own."""
    await asyncio.create_task(unit.__aenter__())
    unit.session.add(Order(id=1))
    await unit.session.flush()
    with pytest.raises(ConcurrentUseError):
        await asyncio.create_task(_enqueue(unit, 2))
    unit.enqueue(Note(1))
    await unit.__aexit__(None, None, None)
    assert await stored(ready, Order) == await stored(ready) == [1]


async def _enqueue(unit: SelfManagedUnitOfWork, number: int) -> None:
    unit.enqueue(Note(number))


async def test_leaving_the_block_in_a_second_task_keeps_nothing_and_gives_the_connection_back(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    await unit.__aenter__()
    await unit.session.execute(insert(Order).values(id=1, customer="x"))
    with pytest.raises(ConcurrentUseError):
        await asyncio.create_task(unit.__aexit__(None, None, None))
    assert not unit.active
    assert checked_out(ready) == 0
    assert await stored(ready, Order) == []


async def test_a_unit_that_ended_keeps_no_connection_alive(ready: AsyncEngine) -> None:
    unit = SelfManagedUnitOfWork(async_sessionmaker(ready))
    async with unit:
        await unit.session.execute(select(Order))
        connection = await unit.session.connection()
        gone = weakref.ref(connection.sync_connection)
        del connection
    del unit
    gc.collect()
    assert gone() is None


async def test_the_session_of_an_ended_unit_begins_nothing_behind_its_back(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        session = unit.session
    for use in (lambda: session.execute(select(Order)), session.commit, session.connection, session.flush):
        with pytest.raises(UnitNotActiveError, match="has ended"):
            await use()
    await session.close()


async def test_a_sessionmaker_that_gives_one_session_again_and_again_works(
    ready: AsyncEngine, notes: NoteParticipant
) -> None:
    session = AsyncSession(ready)
    sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(ready)
    sessions.class_ = lambda **_options: session  # type: ignore[assignment]
    unit = SelfManagedUnitOfWork(sessions, [notes])
    for number in (1, 2):
        async with unit:
            unit.session.add(Order(id=number))
            unit.enqueue(Note(number))
    assert await stored(ready, Order) == await stored(ready) == [1, 2]


async def test_options_and_attempts_are_checked(unit: SelfManagedUnitOfWork) -> None:
    with pytest.raises(ValueError, match="attempts must be at least 1, not 0"):
        await unit.execute(lambda _unit: asyncio.sleep(0), attempts=0)
