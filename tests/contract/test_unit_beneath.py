"""A transaction that is ended beneath SQLAlchemy is noticed, and no event follows what was torn."""

# ruff: noqa: PT012 - what raises is the end of the unit's block, so the block belongs inside

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, make_url, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from tests.support.databases import create_tables, engine_for
from tests.support.unit_of_work import Model, Note, NoteParticipant, Order, checked_out, stored
from uow import SelfManagedUnitOfWork, TransactionOwnedError


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    await create_tables(engine, Model.metadata)
    yield engine
    assert checked_out(engine) == 0


def unit_on(engine: AsyncEngine) -> SelfManagedUnitOfWork:
    return SelfManagedUnitOfWork(async_sessionmaker(engine), [NoteParticipant()])


@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_ending_it_on_the_drivers_connection_fails_the_unit(ready: AsyncEngine, verb: str) -> None:
    with pytest.raises(TransactionOwnedError, match="beneath"):
        async with unit_on(ready) as unit:
            unit.stage(Note(1))
            await unit.session.execute(insert(Order).values(id=1, customer="x"))
            await unit.session.run_sync(lambda session: getattr(session.connection().connection, verb)())
    assert await stored(ready) == []
    async with unit_on(ready) as unit:
        unit.stage(Note(2))
    assert await stored(ready) == [2]


async def test_what_comes_after_it_is_refused_before_it_is_executed(ready: AsyncEngine) -> None:
    with pytest.raises(TransactionOwnedError, match="beneath"):
        async with unit_on(ready) as unit:
            await unit.session.execute(insert(Order).values(id=1, customer="x"))
            await unit.session.run_sync(lambda session: session.connection().connection.rollback())
            await unit.session.execute(insert(Order).values(id=2, customer="x"))
    assert await stored(ready, Order) == []


@pytest.mark.parametrize("database_kind", ["mariadb"], indirect=True)
async def test_a_procedure_that_commits_fails_the_unit(ready: AsyncEngine) -> None:
    async with ready.begin() as connection:
        await connection.execute(
            text("CREATE PROCEDURE archive() BEGIN UPDATE customer_order SET customer = 'y'; COMMIT; END")
        )
    with pytest.raises(TransactionOwnedError, match="procedure"):
        async with unit_on(ready) as unit:
            unit.stage(Note(1))
            await unit.session.execute(insert(Order).values(id=1, customer="x"))
            await unit.session.execute(text("CALL archive()"))
    assert await stored(ready) == []


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
async def test_a_conflict_that_rolls_back_on_sqlite_fails_the_unit(ready: AsyncEngine) -> None:
    async with ready.begin() as connection:
        await connection.execute(text("CREATE TABLE strict (id INTEGER UNIQUE ON CONFLICT ROLLBACK)"))
    with pytest.raises(TransactionOwnedError, match="conflict clause"):
        async with unit_on(ready) as unit:
            unit.stage(Note(1))
            await unit.session.execute(text("INSERT INTO strict VALUES (1)"))
            with pytest.raises(IntegrityError):
                await unit.session.execute(text("INSERT INTO strict VALUES (1)"))
            await unit.session.execute(insert(Order).values(id=1, customer="x"))
    assert await stored(ready) == await stored(ready, Order) == []


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
async def test_a_commit_among_several_statements_fails_the_unit(database_url: str) -> None:
    async with engine_for(str(make_url(database_url).set(drivername="postgresql+psycopg"))) as engine:
        await create_tables(engine, Model.metadata)
        with pytest.raises(TransactionOwnedError, match="several statements"):
            async with unit_on(engine) as unit:
                unit.stage(Note(1))
                await unit.session.execute(insert(Order).values(id=2, customer="x"))
                await unit.session.execute(text("INSERT INTO customer_order VALUES (1, 'x'); COMMIT"))
        assert await stored(engine) == []
