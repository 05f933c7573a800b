"""What a unit of work refuses, each with an error that says what to do, and nothing is kept."""

# ruff: noqa: PT012 - what raises is the end of the unit's block, so the block belongs inside

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, insert, make_url, select, text
from sqlalchemy.dialects import registry
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.unit_of_work import (
    Model,
    Note,
    NoteParticipant,
    Order,
    checked_out,
    note_table,
    nothing_open_on_server,
    stored,
)
from tests.support.waiting import eventually
from uow import (
    AutocommitError,
    ForeignBeginError,
    ForeignCloseError,
    ForeignCommitError,
    ForeignRollbackError,
    RollbackOnlyError,
    SelfManagedUnitOfWork,
    SessionInTransactionError,
    SeveralDatabasesError,
    TransactionOwnedError,
    TwoPhaseSessionError,
)
from uow.sql.dialect import UnsupportedDatabaseError, database_of
from uow.sql.sql_mode import UnsafeSqlModeError
from uow.sql.step import run_step

Use = Callable[[AsyncSession], Awaitable[object]]


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    await create_tables(engine, Model.metadata)
    yield engine
    assert checked_out(engine) == 0


@pytest.fixture
def unit(ready: AsyncEngine) -> SelfManagedUnitOfWork:
    return SelfManagedUnitOfWork(async_sessionmaker(ready), [NoteParticipant()])


async def _on_connection(session: AsyncSession, verb: str) -> None:
    await getattr(await session.connection(), verb)()


async def _detach(session: AsyncSession) -> None:
    connection = await session.connection()
    await connection.run_sync(lambda sync: sync.detach())


async def _on_connections_transaction(session: AsyncSession, verb: str) -> None:
    transaction = (await session.connection()).get_transaction()
    assert transaction is not None
    await getattr(transaction, verb)()


async def _on_root(session: AsyncSession, verb: str) -> None:
    transaction = session.get_transaction()
    assert transaction is not None
    await getattr(transaction, verb)()


FOREIGN: dict[str, tuple[type[TransactionOwnedError], Use]] = {
    "commit": (ForeignCommitError, lambda session: session.commit()),
    "rollback": (ForeignRollbackError, lambda session: session.rollback()),
    "close": (ForeignCloseError, lambda session: session.close()),
    "aclose": (ForeignCloseError, lambda session: session.aclose()),
    "reset": (ForeignCloseError, lambda session: session.reset()),
    "invalidate": (ForeignCloseError, lambda session: session.invalidate()),
    "sync commit": (ForeignCommitError, lambda session: session.run_sync(Session.commit)),
    "sync commit by name": (ForeignCommitError, lambda session: session.run_sync(lambda sync: sync.commit())),
    "sync rollback": (ForeignRollbackError, lambda session: session.run_sync(lambda sync: sync.rollback())),
    "sync close": (ForeignCloseError, lambda session: session.run_sync(lambda sync: sync.close())),
    "root commit": (ForeignCommitError, lambda session: _on_root(session, "commit")),
    "root rollback": (ForeignRollbackError, lambda session: _on_root(session, "rollback")),
    "connection commit": (ForeignCommitError, lambda session: _on_connection(session, "commit")),
    "connection rollback": (ForeignRollbackError, lambda session: _on_connection(session, "rollback")),
    "connection close": (ForeignCloseError, lambda session: _on_connection(session, "close")),
    "connection detach": (ForeignCloseError, _detach),
    "its commit": (ForeignCommitError, lambda session: _on_connections_transaction(session, "commit")),
    "its rollback": (ForeignRollbackError, lambda session: _on_connections_transaction(session, "rollback")),
    "text": (ForeignCommitError, lambda session: session.execute(text("COMMIT"))),
    "commented text": (ForeignCommitError, lambda session: session.execute(text("/* now */ -- x\n commit"))),
    "begin text": (ForeignCommitError, lambda session: session.execute(text("BEGIN"))),
    "rollback text": (ForeignRollbackError, lambda session: session.execute(text("rollback"))),
}


async def test_ending_the_transaction_is_refused_at_the_call_and_nothing_is_kept(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    for how, (error, use) in FOREIGN.items():
        with pytest.raises(RollbackOnlyError) as caught:
            async with unit:
                unit.session.add(Order(id=1))
                await unit.session.flush()
                unit.enqueue(Note(1))
                with pytest.raises(error):
                    await use(unit.session)
                assert await stored(ready, Order) == [], how
        assert isinstance(caught.value.first_cause, error), how
        assert checked_out(ready) == 0, how
        assert await stored(ready, Order) == await stored(ready) == [], how
        assert await eventually(lambda: nothing_open_on_server(ready, ready)), how
    async with unit:
        unit.enqueue(Note(2))
    assert await stored(ready) == [2]


async def test_a_refusal_that_is_not_caught_is_what_the_caller_sees(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    for how, (error, use) in FOREIGN.items():
        with pytest.raises(error):
            async with unit:
                unit.session.add(Order(id=1))
                await unit.session.flush()
                await use(unit.session)
        assert await stored(ready, Order) == [], how
        assert await eventually(lambda: nothing_open_on_server(ready, ready)), how


# SQLAlchemy's own complaint after a commit that was stopped under its feet.
@pytest.mark.filterwarnings("ignore:nested transaction already deassociated")
async def test_ending_the_transaction_inside_a_savepoint_is_refused_as_well(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    for how, (error, use) in FOREIGN.items():
        with pytest.raises(error):
            async with unit:
                unit.session.add(Order(id=1))
                async with unit.session.begin_nested():
                    unit.session.add(Order(id=2))
                    await unit.session.flush()
                    await use(unit.session)
        assert await stored(ready, Order) == [], how
        assert await eventually(lambda: nothing_open_on_server(ready, ready)), how


async def test_beginning_again_is_refused_and_harms_nothing(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async with unit:
        unit.session.add(Order(id=1))
        with pytest.raises(ForeignBeginError, match="begin_nested"):
            async with unit.session.begin():
                raise AssertionError("not reached")
    assert await stored(ready, Order) == [1]


async def test_a_connection_that_the_code_invalidates_is_no_commit(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    with pytest.raises(ForeignCloseError, match="invalidated"):
        async with unit:
            unit.session.add(Order(id=1))
            await unit.session.flush()
            await _on_connection(unit.session, "invalidate")
    assert await stored(ready, Order) == []


async def test_a_statement_that_commits_by_itself_is_refused_where_the_database_does_that(
    ready: AsyncEngine, unit: SelfManagedUnitOfWork
) -> None:
    async def define() -> None:
        async with unit:
            await unit.session.execute(insert(Order).values(id=1))
            await unit.session.execute(text("CREATE TABLE other (id integer)"))
            raise KeyError

    expected = ForeignCommitError if database_of(ready).definition_commits else KeyError
    with pytest.raises(expected):
        await define()
    assert await stored(ready, Order) == []


async def test_statements_that_only_look_like_control_pass(unit: SelfManagedUnitOfWork) -> None:
    async with unit:
        await unit.session.execute(text("CREATE TEMPORARY TABLE commits (rollback_id integer)"))
        await unit.session.execute(text("INSERT INTO commits (rollback_id) VALUES (1)"))
        await unit.session.execute(text("SELECT 'COMMIT' FROM commits"))
        async with unit.session.begin_nested():
            await unit.session.execute(text("DELETE FROM commits"))


AUTOCOMMIT_BY_DRIVER = {"sqlite": {"isolation_level": None}, "mysql": {"autocommit": True}}


@pytest.mark.parametrize("where", ["create_engine", "engine options", "session connection", "driver"])
async def test_autocommit_is_refused_wherever_it_was_set(
    ready: AsyncEngine, database_url: str, where: str
) -> None:
    options: dict[str, object] = {}
    if where == "create_engine":
        options = {"isolation_level": "AUTOCOMMIT"}
    elif where == "driver":
        # asyncpg has no such switch of its own.
        switch = AUTOCOMMIT_BY_DRIVER.get(database_of(ready).name)
        options = {"connect_args": switch} if switch else {"isolation_level": "AUTOCOMMIT"}
    engine = create_async_engine(database_url, **options)
    if where == "engine options":
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    unit = SelfManagedUnitOfWork(async_sessionmaker(engine), [NoteParticipant()])
    with pytest.raises(AutocommitError, match="AUTOCOMMIT"):
        async with unit:
            if where == "session connection":
                await unit.session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
            await unit.session.execute(insert(Order).values(id=1))
    with pytest.raises(AutocommitError):
        async with unit:
            if where == "session connection":
                await unit.session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
            unit.enqueue(Note(1))
    assert checked_out(engine) == 0
    await engine.dispose()
    assert await stored(ready, Order) == await stored(ready) == []


async def test_a_session_that_already_has_a_transaction_is_refused_and_left_alone(ready: AsyncEngine) -> None:
    async with AsyncSession(ready) as session:
        session.add(Order(id=1))
        await session.flush()
        sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(ready)
        sessions.class_ = lambda **_options: session  # type: ignore[assignment]
        with pytest.raises(SessionInTransactionError, match="makes new sessions"):
            async with SelfManagedUnitOfWork(sessions):
                raise AssertionError("not reached")
        assert session.in_transaction()
        await session.commit()
    assert await stored(ready, Order) == [1]


async def test_a_connection_that_already_has_a_transaction_is_refused_and_left_alone(
    ready: AsyncEngine,
) -> None:
    async with ready.connect() as connection, connection.begin():
        unit = SelfManagedUnitOfWork(async_sessionmaker(connection))
        with pytest.raises(SessionInTransactionError, match="bind it to the engine"):
            async with unit:
                raise AssertionError("not reached")
        await connection.execute(insert(Order).values(id=1))
    assert await stored(ready, Order) == [1]


async def test_a_connection_of_the_applications_own_is_used_and_stays_open(ready: AsyncEngine) -> None:
    async with ready.connect() as connection:
        unit = SelfManagedUnitOfWork(async_sessionmaker(connection), [NoteParticipant()])
        async with unit:
            unit.session.add(Order(id=1))
            unit.enqueue(Note(1))
        with pytest.raises(KeyError):
            async with unit:
                await unit.session.execute(insert(Order).values(id=2))
                raise KeyError
        assert not connection.in_transaction()
        assert (await connection.execute(select(note_table.c.id))).scalars().all() == [1]
    assert await stored(ready, Order) == [1]


async def test_a_unit_that_touches_two_engines_is_refused(ready: AsyncEngine, tmp_path: Path) -> None:
    async with temporary_database_url("sqlite", tmp_path) as url, engine_for(url) as second:
        await create_tables(second, Model.metadata)
        unit = SelfManagedUnitOfWork(
            async_sessionmaker(binds={Order: ready, note_table: second}), [NoteParticipant()]
        )
        with pytest.raises(SeveralDatabasesError, match="one unit for each database"):
            async with unit:
                unit.session.add(Order(id=1))
                await unit.session.flush()
                await unit.session.execute(insert(note_table).values(id=1, text="x"))
        with pytest.raises(RollbackOnlyError):
            async with unit:
                unit.session.add(Order(id=1))
                await unit.session.flush()
                with pytest.raises(SeveralDatabasesError):
                    await unit.session.execute(insert(note_table).values(id=1, text="x"))
        assert checked_out(second) == 0
        assert await stored(ready, Order) == await stored(second) == []


async def test_tables_bound_one_by_one_to_one_engine_are_one_database(ready: AsyncEngine) -> None:
    unit = SelfManagedUnitOfWork(async_sessionmaker(binds={Model: ready}), [NoteParticipant()])
    async with unit:
        unit.enqueue(Note(1))
    async with unit:
        unit.session.add(Order(id=1))
        unit.enqueue(Note(2))
    assert await stored(ready) == [1, 2]


async def test_two_phase_sessions_are_refused(ready: AsyncEngine) -> None:
    with pytest.raises(TwoPhaseSessionError, match="without twophase"):
        async with SelfManagedUnitOfWork(async_sessionmaker(ready, twophase=True)):
            raise AssertionError("not reached")


async def test_an_application_that_makes_its_sync_session_with_a_sessionmaker_is_guarded_too(
    ready: AsyncEngine,
) -> None:
    unit = SelfManagedUnitOfWork(async_sessionmaker(ready, sync_session_class=sessionmaker()))
    with pytest.raises(ForeignCommitError):
        async with unit:
            unit.session.add(Order(id=1))
            await unit.session.commit()
    async with unit:
        unit.session.add(Order(id=2))
    assert await stored(ready, Order) == [2]


@pytest.mark.parametrize("database_kind", ["mariadb"], indirect=True)
@pytest.mark.parametrize("driver", ["asyncmy", "aiomysql"])
async def test_a_sql_mode_under_which_drivers_garble_texts_is_refused(database_url: str, driver: str) -> None:
    modes = "SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')"
    url = make_url(database_url).set(drivername=f"mysql+{driver}")
    async with engine_for(url, connect_args={"init_command": modes}) as engine:
        await create_tables(engine, Model.metadata)
        with pytest.raises(UnsafeSqlModeError, match="NO_BACKSLASH_ESCAPES"):
            async with SelfManagedUnitOfWork(async_sessionmaker(engine), [NoteParticipant()]) as unit:
                unit.stage(Note(1))
        with pytest.raises(UnsafeSqlModeError, match="NO_BACKSLASH_ESCAPES"):
            await run_step(engine, lambda connection: connection.execute(insert(note_table)))
        assert await stored(engine) == []
        assert checked_out(engine) == 0


async def test_an_unknown_database_is_refused_before_anything_is_connected() -> None:
    class Strange(DefaultDialect):
        name = "strange"
        driver = "strange"
        is_async = True
        supports_statement_cache = True

        @classmethod
        def import_dbapi(cls) -> object:
            return SimpleNamespace(paramstyle="named")

    registry.impls["strange"] = lambda: Strange
    engine = AsyncEngine(create_engine("strange://nowhere/"))
    with pytest.raises(UnsupportedDatabaseError, match="'strange' is not supported"):
        async with SelfManagedUnitOfWork(async_sessionmaker(engine)):
            raise AssertionError("not reached")
