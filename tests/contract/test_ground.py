"""The SQL ground holds the same on every database."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.databases import create_tables
from uow.sql.clock import DatabaseClock, PinnedClock, read_clock
from uow.sql.fault import Fault, fault_of, is_transient
from uow.sql.step import run_step
from uow.sql.types import ExactLongText, ExactText, ExactUuid, InstantTicks, UtcDateTime
from uow.ticks import MAXIMUM_TICKS, UtcInstant

metadata = MetaData()
thing = Table(
    "thing",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=False),
    Column("name", ExactText(200), unique=True),
    Column("body", ExactLongText()),
    Column("uuid", ExactUuid()),
    Column("moment", UtcDateTime()),
    Column("instant", InstantTicks()),
)


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncEngine:
    await create_tables(engine, metadata)
    return engine


async def test_names_that_differ_only_by_case_blanks_or_normal_form_are_different(ready: AsyncEngine) -> None:
    names = ["Audit", "audit", "audit ", "e\u0301", "\xe9", "\U0001f600" * 100]
    await run_step(
        ready,
        lambda connection: connection.execute(
            insert(thing), [{"key": key, "name": name} for key, name in enumerate(names)]
        ),
    )
    for key, name in enumerate(names):
        found = await run_step(
            ready,
            lambda connection, name=name: connection.execute(
                select(thing.c.key, thing.c.name).where(thing.c.name == name)
            ).all(),
        )
        assert found == [(key, name)]


async def test_a_row_comes_back_equal_to_the_last_digit(ready: AsyncEngine) -> None:
    row = {
        "key": 1,
        "name": "a",
        "body": '{"name":"Zoë 😀"}' + "x" * 1_048_576,
        "uuid": uuid4(),
        "moment": datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC),
        "instant": UtcInstant(MAXIMUM_TICKS),
    }
    await run_step(ready, lambda connection: connection.execute(insert(thing).values(row)))
    stored = await run_step(ready, lambda connection: connection.execute(select(thing)).mappings().one())
    assert dict(stored) == row


async def test_the_databases_clock_is_utc_and_adds_seconds(ready: AsyncEngine) -> None:
    clock = DatabaseClock()
    before = datetime.now(UTC) - timedelta(seconds=1)
    now = await run_step(ready, lambda connection: read_clock(connection, clock))
    assert before < now < datetime.now(UTC) + timedelta(seconds=1)
    early, late = await run_step(
        ready, lambda connection: connection.execute(select(clock.after(-90.5), clock.after(0.25))).one()
    )
    assert timedelta(seconds=90.7) <= late - early <= timedelta(seconds=90.8)


async def test_a_stored_time_compares_with_the_clock_at_the_exact_boundary(ready: AsyncEngine) -> None:
    pinned = PinnedClock(datetime(2026, 1, 1, tzinfo=UTC))
    await run_step(
        ready, lambda connection: connection.execute(insert(thing).values(key=1, moment=pinned.after(60)))
    )
    due = select(thing.c.key).where(thing.c.moment <= pinned.now())
    assert await run_step(ready, lambda connection: connection.execute(due).all()) == []
    pinned.advance(60)
    due = select(thing.c.key).where(thing.c.moment <= pinned.now())
    assert await run_step(ready, lambda connection: connection.execute(due).scalars().all()) == [1]


async def test_a_unique_violation_is_told_apart_by_its_code(ready: AsyncEngine) -> None:
    add = insert(thing).values(key=1, name="a")
    await run_step(ready, lambda connection: connection.execute(add))
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each driver wraps it in SQLAlchemy's class
        await run_step(ready, lambda connection: connection.execute(add))
    assert fault_of(caught.value) is Fault.UNIQUE_VIOLATION


async def test_what_was_being_handled_meanwhile_says_nothing_about_a_database_error(
    ready: AsyncEngine,
) -> None:
    add = insert(thing).values(key=1, name="a")
    await run_step(ready, lambda connection: connection.execute(add))
    try:
        raise ConnectionResetError("another service is away")
    except ConnectionResetError:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each driver wraps it in SQLAlchemy's class
            await run_step(ready, lambda connection: connection.execute(add))
    assert fault_of(caught.value) is Fault.UNIQUE_VIOLATION
    assert not is_transient(caught.value)


def test_an_error_that_is_raised_from_a_lost_connection_is_one_too() -> None:
    error = OSError("cannot reach the database")
    error.__cause__ = ConnectionRefusedError()
    assert fault_of(error) is Fault.CONNECTION_LOST


async def test_a_cancelled_step_finishes_and_gives_its_connection_back(ready: AsyncEngine) -> None:
    step = asyncio.create_task(
        run_step(ready, lambda connection: connection.execute(insert(thing).values(key=7)))
    )
    await asyncio.sleep(0)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert ready.pool.checkedout() == 0  # type: ignore[attr-defined]
