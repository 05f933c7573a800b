"""The SQL that jobs stand on: ticks by the database's clock, and rows given as parameters."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.ground import KEY_COLUMNS
from tests.support.databases import create_tables
from uow.sql.clock import DatabaseClock, PinnedClock, read_clock, read_ticks
from uow.sql.delete_given import delete_given
from uow.sql.dialect import database_of
from uow.sql.given import given_rows
from uow.sql.planner import unestimated
from uow.sql.row_address import row_address
from uow.sql.step import run_step
from uow.sql.types import ExactLongText, ExactText, ExactUuid, InstantTicks, digest_type
from uow.ticks import MAXIMUM_TICKS, TICKS_PER_SECOND, UtcInstant

metadata = MetaData()
thing = Table(
    "thing",
    metadata,
    Column("scope_hash", digest_type(), primary_key=True),
    Column("job_id", ExactText(200), primary_key=True),
    Column("number", Integer()),
    Column("instant", InstantTicks()),
)
SCOPE = bytes(range(256))[100:132]
COLUMNS = {
    **KEY_COLUMNS,
    "number": Integer(),
    "token": ExactUuid(),
    "short": ExactText(1000),
    "long": ExactLongText(),
    "instant": InstantTicks(),
}
ROWS = [
    (SCOPE, "a", 1, UUID(int=7), "ä😀\\\"' %s :x", "x" * 100_000, MAXIMUM_TICKS),
    (bytes(32), "A ", -(2**31), uuid4(), "", "\x01\n\t{}[]", 0),
    (b"\xff" * 32, "😀" * 100, 2**31 - 1, uuid4(), "y" * 1000, "", 639_028_224_000_000_007),
    (SCOPE, "null", None, None, None, None, None),
]


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncEngine:
    await create_tables(engine, metadata)
    return engine


async def test_given_rows_come_back_as_they_were_given_in_their_order(ready: AsyncEngine) -> None:
    given = given_rows(database_of(ready), COLUMNS)
    query = select(*(given.c[name].label(name) for name in COLUMNS)).select_from(given.source)
    for rows in (ROWS, ROWS[:1], ROWS[1:] * 300, []):
        found = await run_step(
            ready, lambda connection, rows=rows: connection.execute(query, given.parameters(rows)).all()
        )
        expected = [(*row[:-1], None if row[-1] is None else UtcInstant(row[-1])) for row in rows]
        assert [tuple(row) for row in found] == expected


async def test_stored_rows_are_joined_changed_and_deleted_by_given_keys(ready: AsyncEngine) -> None:
    stored = [
        {"scope_hash": scope, "job_id": job_id, "number": 0}
        for scope in (SCOPE, bytes(32))
        for job_id in ("a", "A", "a ", "ä")
    ]
    await run_step(ready, lambda connection: connection.execute(insert(thing), stored))
    given = given_rows(database_of(ready), KEY_COLUMNS)
    same = (thing.c.scope_hash == given.c["scope_hash"]) & (thing.c.job_id == given.c["job_id"])
    parameters = given.parameters([(SCOPE, "a"), (bytes(32), "ä"), (SCOPE, "nobody")])
    found = select(thing.c.job_id).join_from(given.source, thing, same & unestimated(thing.c.number == 0))
    rows = await run_step(ready, lambda connection: connection.execute(found, parameters).scalars().all())
    assert sorted(rows) == ["a", "ä"]
    deletion = delete_given(given, thing, same)
    await run_step(ready, lambda connection: connection.execute(deletion, parameters))
    left = await run_step(ready, lambda connection: connection.execute(select(thing)).all())
    assert len(left) == 6
    assert {(row.scope_hash, row.job_id) for row in left}.isdisjoint({(SCOPE, "a"), (bytes(32), "ä")})


@pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])
async def test_an_address_finds_its_row_within_a_statement(ready: AsyncEngine) -> None:
    rows = [{"scope_hash": SCOPE, "job_id": f"{number}", "number": number} for number in range(5)]
    await run_step(ready, lambda connection: connection.execute(insert(thing), rows))
    some = thing.alias("some")
    low = select(row_address(some)).where(some.c.number < 3).scalar_subquery()
    change = update(thing).where(row_address(thing).in_(low)).values(number=-1).returning(thing.c.job_id)
    changed = await run_step(ready, lambda connection: connection.execute(change).scalars().all())
    assert sorted(changed) == ["0", "1", "2"]
    gone = delete(thing).where(row_address(thing).in_(low))
    assert (await run_step(ready, lambda connection: connection.execute(gone).rowcount)) == 3


async def test_ticks_of_the_databases_clock_are_its_time(ready: AsyncEngine) -> None:
    clock = DatabaseClock()
    ticks, moment = await run_step(
        ready, lambda connection: (read_ticks(connection, clock), read_clock(connection, clock))
    )
    assert abs(ticks.to_datetime() - moment) < timedelta(seconds=2)
    early, now, late = await run_step(
        ready,
        lambda connection: connection.execute(
            select(clock.ticks_after(-90.5), clock.now_ticks(), clock.ticks_after(0.0000001))
        ).one(),
    )
    assert now.ticks - early.ticks == round(90.5 * TICKS_PER_SECOND)
    assert late.ticks - now.ticks == 1


async def test_a_pinned_clock_is_asked_when_a_statement_is_executed(ready: AsyncEngine) -> None:
    clock = PinnedClock(datetime(2026, 1, 1, tzinfo=UTC))
    query = select(clock.now_ticks(), clock.ticks_after(60))
    change = update(thing).values(instant=clock.now_ticks())
    add = insert(thing).values(scope_hash=SCOPE, job_id="a")
    await run_step(ready, lambda connection: connection.execute(add))
    for _ in range(2):
        now, later = await run_step(ready, lambda connection: connection.execute(query).one())
        assert now == UtcInstant.from_datetime(clock.moment)
        assert later.ticks - now.ticks == 60 * TICKS_PER_SECOND
        await run_step(ready, lambda connection: connection.execute(change))
        stored = select(thing.c.job_id).where(thing.c.instant == clock.now_ticks())
        assert await run_step(ready, lambda connection: connection.execute(stored).scalar()) == "a"  # noqa: B023
        clock.advance(0.000001)
