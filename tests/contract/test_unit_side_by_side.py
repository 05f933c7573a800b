"""Many units at once, and several business contexts in one process."""

# ruff: noqa: PT012 - what raises is the end of the unit's block, so the block belongs inside

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.unit_of_work import Model, Note, NoteParticipant, Order, checked_out, note_table, stored
from uow import SelfManagedUnitOfWork

UNITS = 50


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    await create_tables(engine, Model.metadata)
    yield engine
    assert checked_out(engine) == 0


async def test_fifty_concurrent_units_that_read_and_write_all_succeed(ready: AsyncEngine) -> None:
    notes = NoteParticipant()
    sessions = async_sessionmaker(ready)

    async def place(number: int) -> None:
        async with SelfManagedUnitOfWork(sessions, [notes]) as unit:
            await unit.session.execute(select(Order).limit(1))
            unit.session.add(Order(id=number))
            await unit.session.flush()
            unit.enqueue(Note(number))

    await asyncio.gather(*[place(number) for number in range(UNITS)])
    assert await stored(ready, Order) == await stored(ready) == list(range(UNITS))
    assert sorted(notes.told) == list(range(UNITS))


async def test_two_business_contexts_keep_to_their_own_databases(ready: AsyncEngine, tmp_path: Path) -> None:
    billing = MetaData()
    receipts = Table("receipt", billing, Column("id", Integer, primary_key=True), Column("text", String(200)))
    async with temporary_database_url("sqlite", tmp_path) as url, engine_for(url) as other:
        await create_tables(other, billing)
        orders = SelfManagedUnitOfWork(async_sessionmaker(ready), [NoteParticipant()])
        bills = SelfManagedUnitOfWork(async_sessionmaker(other), [NoteParticipant(receipts)])
        async with orders, bills:
            orders.session.add(Order(id=1))
            orders.enqueue(Note(1))
            bills.enqueue(Note(2))
        with pytest.raises(LookupError):
            async with bills:
                bills.enqueue(Note(3))
                async with orders:
                    orders.enqueue(Note(4))
                raise LookupError
        assert await stored(ready) == [1, 4]
        assert await stored(other, receipts) == [2]


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_two_schemas_of_one_database_are_two_contexts(ready: AsyncEngine) -> None:
    copies = {name: note_table.to_metadata(MetaData(), schema=name) for name in ("sales", "billing")}
    async with ready.begin() as connection:
        for name in copies:
            await connection.execute(text(f"CREATE SCHEMA {name}"))
    for copy in copies.values():
        await create_tables(ready, copy.metadata)
    sessions = async_sessionmaker(ready)
    for number, copy in enumerate(copies.values()):
        async with SelfManagedUnitOfWork(sessions, [NoteParticipant(copy)]) as unit:
            unit.enqueue(Note(number))
            await unit.session.execute(insert(copy).values(id=number + 10, text="direct"))
    assert await stored(ready, copies["sales"]) == [0, 10]
    assert await stored(ready, copies["billing"]) == [1, 11]
    assert await stored(ready) == []


async def test_one_participant_for_each_kind_writes_once_and_in_their_order(ready: AsyncEngine) -> None:
    order: list[str] = []

    class Numbers(NoteParticipant):
        def accepts(self, item: object) -> bool:
            return isinstance(item, int)

        def stage(self, item: object, **options: object) -> object:  # type: ignore[override]
            return super().stage(Note(int(str(item))), **options)

        def write(self, connection: object, staged: object) -> str | None:
            order.append("numbers")
            return super().write(connection, staged)  # type: ignore[arg-type]

    class Notes(NoteParticipant):
        def write(self, connection: object, staged: object) -> str | None:
            order.append("notes")
            return super().write(connection, staged)  # type: ignore[arg-type]

    numbers, notes = Numbers(), Notes()
    async with SelfManagedUnitOfWork(async_sessionmaker(ready), [notes, numbers]) as unit:
        unit.stage(7)
        unit.enqueue(Note(1))
        unit.stage(8)
    assert order == ["notes", "numbers"]
    assert (notes.told, numbers.told) == ([1], [7, 8])
    assert await stored(ready) == [1, 7, 8]
