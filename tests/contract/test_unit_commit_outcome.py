"""A connection lost during COMMIT is an unknown outcome: never success, never a blind repetition."""

# ruff: noqa: PT012 - what raises is the end of the unit's block, so the block belongs inside

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from sqlalchemy import event, make_url, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from tests.support.databases import create_tables, engine_for
from tests.support.proxy import Flow, Reaction, TcpProxy
from tests.support.unit_of_work import (
    Model,
    Note,
    NoteParticipant,
    Order,
    checked_out,
    nothing_open_on_server,
    stored,
)
from tests.support.waiting import eventually
from uow import (
    CommitOutcome,
    CommitOutcomeUnknownError,
    SelfManagedUnitOfWork,
    UnitOptions,
    ask_commit_outcome,
)
from uow.sql.dialect import database_of

COMMIT = b"COMMIT"
IMPATIENT = UnitOptions(commit_patience_seconds=0.2, cleanup_seconds=0.2)
SERVER_OF = {
    "postgresql+asyncpg": "postgresql",
    "postgresql+psycopg": "postgresql",
    "mysql+asyncmy": "mariadb",
    "mysql+aiomysql": "mariadb",
}


@dataclass
class Line:
    """A database seen directly and through a proxy, and a unit that goes through the proxy."""

    proxy: TcpProxy
    direct: AsyncEngine
    engine: AsyncEngine
    notes: NoteParticipant

    def unit(self, options: UnitOptions | None = None) -> SelfManagedUnitOfWork:
        return SelfManagedUnitOfWork(async_sessionmaker(self.engine), [self.notes], options=options)


@pytest.fixture(params=SERVER_OF)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_kind(driver: str) -> str:
    return SERVER_OF[driver]


@pytest.fixture
async def line(driver: str, database_url: str) -> AsyncIterator[Line]:
    url = make_url(database_url).set(drivername=driver).render_as_string(hide_password=False)
    async with TcpProxy.before(database_url) as proxy, engine_for(database_url) as direct:
        await create_tables(direct, Model.metadata)
        async with engine_for(proxy.through(url), connect_args=_unencrypted(driver)) as engine:
            # The first connection asks the server this and that; have it over.
            async with engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
            yield Line(proxy, direct, engine, NoteParticipant())
            assert checked_out(engine) == 0
            await proxy.release()


def _unencrypted(driver: str) -> dict[str, object]:
    """The proxy looks for COMMIT on the wire."""
    match driver:
        case "postgresql+asyncpg":
            return {"ssl": False}
        case "postgresql+psycopg":
            return {"sslmode": "disable", "gssencmode": "disable"}
        case _:
            return {}


async def _place(unit: SelfManagedUnitOfWork) -> None:
    unit.session.add(Order(id=1))
    unit.enqueue(Note(1))
    unit.enqueue(Note(2))


async def test_a_commit_that_never_reached_the_server_is_unknown_and_found_rolled_back(line: Line) -> None:
    line.proxy.react(COMMIT, Reaction.CUT_BEFORE_SERVER)
    with pytest.raises(CommitOutcomeUnknownError, match=r"outcome is unknown.*staged: 1, 2") as caught:
        await line.unit().execute(_place)
    assert caught.value.keys == (1, 2)
    assert line.notes.told == []
    assert checked_out(line.engine) == 0
    assert await eventually(lambda: nothing_open_on_server(line.direct, line.direct))
    assert await stored(line.direct, Order) == await stored(line.direct) == []
    await _the_truth_is(line, caught.value, CommitOutcome.ROLLED_BACK)


async def test_a_commit_whose_answer_was_lost_is_unknown_and_found_committed(line: Line) -> None:
    line.proxy.react(COMMIT, Reaction.CUT_AFTER_REPLY)
    with pytest.raises(CommitOutcomeUnknownError) as caught:
        await line.unit().execute(_place)
    assert line.notes.told == []
    assert checked_out(line.engine) == 0
    assert await stored(line.direct, Order) == [1]
    assert await stored(line.direct) == [1, 2]
    await _the_truth_is(line, caught.value, CommitOutcome.COMMITTED)
    async with line.unit() as unit:
        unit.enqueue(Note(3))
    assert await stored(line.direct) == [1, 2, 3]


async def _the_truth_is(line: Line, error: CommitOutcomeUnknownError, expected: CommitOutcome) -> None:
    if not database_of(line.direct).transaction_status:
        assert error.transaction_id is None
        assert await ask_commit_outcome(line.direct, "1") is CommitOutcome.UNKNOWN
        return
    assert error.transaction_id is not None
    assert error.transaction_id in str(error)

    async def settled() -> CommitOutcome | None:
        found = await ask_commit_outcome(line.direct, error.transaction_id)
        return None if found is CommitOutcome.IN_PROGRESS else found

    assert await eventually(settled) is expected


async def test_the_id_that_a_participant_brought_is_the_one_that_is_told(line: Line) -> None:
    line.notes.asks_transaction_id = True
    line.proxy.react(COMMIT, Reaction.CUT_AFTER_REPLY)
    with pytest.raises(CommitOutcomeUnknownError) as caught:
        await line.unit().execute(_place)
    await _the_truth_is(line, caught.value, CommitOutcome.COMMITTED)


@pytest.mark.parametrize("reaction", [Reaction.CUT_BEFORE_SERVER, Reaction.CUT_AFTER_REPLY])
async def test_an_unknown_outcome_is_never_repeated(line: Line, reaction: Reaction) -> None:
    calls = 0

    async def operation(unit: SelfManagedUnitOfWork) -> None:
        nonlocal calls
        calls += 1
        await _place(unit)

    line.proxy.react(COMMIT, reaction)
    with pytest.raises(CommitOutcomeUnknownError):
        await line.unit().execute(operation, attempts=5)
    assert calls == 1


async def test_a_connection_lost_before_commit_kept_nothing_and_may_be_repeated(line: Line) -> None:
    calls = 0

    async def operation(unit: SelfManagedUnitOfWork) -> None:
        nonlocal calls
        calls += 1
        unit.session.add(Order(id=calls))
        await unit.session.flush()
        if calls == 1:
            line.proxy.cut()
            # Any statement notices, before COMMIT is ever sent.
            await unit.session.execute(select(Order))

    await line.unit().execute(operation, attempts=2)
    assert calls == 2
    assert await stored(line.direct, Order) == [2]


async def test_a_cancelled_commit_is_finished_first_then_the_cancellation_goes_on(line: Line) -> None:
    line.proxy.react(COMMIT, Reaction.HOLD_REPLY)
    task = asyncio.create_task(line.unit().execute(_place))
    await line.proxy.seen.wait()
    task.cancel()
    task.cancel()
    assert await asyncio.wait([task], timeout=0.05) == (set(), {task})
    await line.proxy.release()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.__cause__ is None
    assert line.notes.told == [1, 2]
    assert await stored(line.direct, Order) == [1]


async def test_a_cancelled_commit_without_any_answer_ends_within_the_patience_and_is_unknown(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    line.proxy.react(COMMIT, Reaction.DROP_BOTH)
    task = asyncio.create_task(line.unit(IMPATIENT).execute(_place))
    await line.proxy.seen.wait()
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
    unknown = caught.value.__cause__
    assert isinstance(unknown, CommitOutcomeUnknownError)
    assert unknown.keys == (1, 2)
    assert "outcome is unknown" in caplog.text
    assert checked_out(line.engine) == 0
    line.proxy.cut()
    await _the_truth_is(line, unknown, CommitOutcome.ROLLED_BACK)


async def test_a_rollback_without_any_answer_ends_within_the_cleanup_limit(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(10):
        with pytest.raises(LookupError):
            async with line.unit(IMPATIENT) as unit:
                unit.session.add(Order(id=1))
                await unit.session.flush()
                line.proxy.blackhole()
                raise LookupError
    assert checked_out(line.engine) == 0
    assert "took longer than 0.2 s" in caplog.text
    line.proxy.cut()
    assert await eventually(lambda: nothing_open_on_server(line.direct, line.direct))
    assert await stored(line.direct, Order) == []


async def test_cancelled_again_and_again_during_a_rollback_without_answer_the_pool_is_full(
    line: Line,
) -> None:
    stuck = asyncio.Event()

    async def work() -> None:
        async with line.unit(IMPATIENT) as unit:
            unit.session.add(Order(id=1))
            await unit.session.flush()
            line.proxy.requests = line.proxy.replies = Flow.DROP
            stuck.set()
            raise LookupError

    task = asyncio.create_task(work())
    await stuck.wait()
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.02)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checked_out(line.engine) == 0


async def test_slow_lines_only_cost_time(line: Line) -> None:
    line.proxy.delay_seconds = 0.01
    await line.unit().execute(_place)
    assert await stored(line.direct) == [1, 2]


@pytest.mark.parametrize("driver", ["postgresql+asyncpg", "postgresql+psycopg"])
async def test_a_commit_that_the_database_refuses_is_its_own_error_not_an_unknown_outcome(line: Line) -> None:
    async with line.direct.begin() as connection:
        await connection.execute(
            text("ALTER TABLE customer_order ADD UNIQUE (customer) DEFERRABLE INITIALLY DEFERRED")
        )
    with pytest.raises(DBAPIError) as caught:
        async with line.unit() as unit:
            unit.session.add_all([Order(id=1), Order(id=2)])
            unit.enqueue(Note(1))
    assert isinstance(caught.value, IntegrityError)
    assert line.notes.told == []
    assert await stored(line.direct, Order) == []


@pytest.mark.parametrize("driver", ["postgresql+asyncpg", "postgresql+psycopg"])
async def test_an_id_that_the_database_does_not_know_is_unknown(line: Line) -> None:
    for transaction_id in (None, "4611686018427387904"):
        assert await ask_commit_outcome(line.direct, transaction_id) is CommitOutcome.UNKNOWN
    with pytest.raises(ValueError, match="decimal digits"):
        await ask_commit_outcome(line.direct, "1; DROP TABLE note")


@pytest.mark.parametrize("driver", ["postgresql+asyncpg"])
async def test_a_transaction_that_still_runs_is_in_progress(line: Line) -> None:
    async with line.direct.begin() as connection:
        running = (await connection.execute(text("SELECT pg_current_xact_id()::text"))).scalar_one()
        assert await ask_commit_outcome(line.direct, running) is CommitOutcome.IN_PROGRESS


@pytest.mark.parametrize("driver", ["postgresql+asyncpg"])
async def test_a_session_listener_that_fails_after_commit_does_not_fail_the_operation(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = async_sessionmaker(line.engine)
    unit = SelfManagedUnitOfWork(sessions, [line.notes])

    def explode(_session: object) -> None:
        raise LookupError("after commit")

    with caplog.at_level(logging.WARNING):
        async with unit:
            event.listen(unit.session.sync_session, "after_commit", explode)
            unit.enqueue(Note(1))
    assert line.notes.told == [1]
    assert "COMMIT succeeded" in caplog.text
    assert await stored(line.direct) == [1]


@pytest.mark.parametrize("driver", ["postgresql+asyncpg"])
async def test_a_session_listener_that_fails_before_commit_keeps_nothing(line: Line) -> None:
    unit = line.unit()

    def explode(_session: object) -> None:
        raise LookupError("before commit")

    with pytest.raises(LookupError):
        async with unit:
            event.listen(unit.session.sync_session, "before_commit", explode)
            unit.enqueue(Note(1))
    assert line.notes.told == await stored(line.direct) == []


async def test_sqlite_that_refuses_a_commit_leaves_no_lock(tmp_path: object) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/app.db")
    async with engine_for(str(engine.url)) as engine, AsyncSession(engine) as session:
        for statement in (
            "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
            "CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)",
        ):
            await session.execute(text(statement))
        await session.commit()
        unit = SelfManagedUnitOfWork(async_sessionmaker(engine))
        with pytest.raises(IntegrityError):
            async with unit:
                await unit.session.execute(text("INSERT INTO child (id) VALUES (7)"))
        assert checked_out(engine) == 0
        assert await nothing_open_on_server(engine, engine)
        assert (await session.execute(text("SELECT count(*) FROM child"))).scalar_one() == 0
