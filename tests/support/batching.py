"""A source of numbers, the rows that applying them writes, and where their cursor stands."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import MetaData, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from jobs.schedule.batching.batch import Batch
from jobs.schedule.batching.cursor import BatchCursor
from jobs.schedule.batching.cursor_store import CursorStore
from jobs.schedule.batching.cursor_table import add_cursor_table
from tests.support.unit_of_work import Order
from uow import SelfManagedUnitOfWork

metadata = MetaData()
table: Table = add_cursor_table(metadata)

NAME = "orders.scan"


@dataclass
class Numbers:
    """Gives the numbers from 1 to `last`; the position is the last number given. `asked` is what for."""

    last: int
    asked: list[tuple[Any, int]] = field(default_factory=list)

    async def __call__(self, position: Any, size: int) -> Batch[int]:
        self.asked.append((position, size))
        first = (position or 0) + 1
        return Batch.of(range(first, min(first + size, self.last + 1)), lambda number: number)


@dataclass
class Orders:
    """Writes an order for each number into the unit, or into one of its own; `applied` is what was begun."""

    engine: AsyncEngine
    applied: list[list[int]] = field(default_factory=list)
    before: Callable[[Sequence[int]], Any] = lambda numbers: None

    def unit_of_work(self) -> SelfManagedUnitOfWork:
        return SelfManagedUnitOfWork(async_sessionmaker(self.engine, expire_on_commit=False))

    async def __call__(self, numbers: Sequence[int], unit: SelfManagedUnitOfWork) -> None:
        self.applied.append(list(numbers))
        unit.session.add_all([Order(id=number) for number in numbers])
        await unit.session.flush()
        waiting = self.before(numbers)
        if asyncio.iscoroutine(waiting):
            await waiting

    async def alone(self, numbers: Sequence[int]) -> None:
        """The same in a unit of its own; a number that has its order is left out."""
        async with self.unit_of_work() as unit:
            there = set(await unit.session.scalars(select(Order.id).where(Order.id.in_(numbers))))
            new = [number for number in numbers if number not in there]
            self.applied.append(list(numbers))
            if new:
                await unit.session.execute(insert(Order), [{"id": number} for number in new])
        waiting = self.before(numbers)
        if asyncio.iscoroutine(waiting):
            await waiting


def cursor_on(engine: AsyncEngine, name: str = NAME, tenant: str | None = None) -> BatchCursor:
    return BatchCursor(engine, CursorStore(table), name, tenant=tenant)


async def cursor_text(engine: AsyncEngine) -> str | None:
    """The committed position of the only cursor, read without waiting for a writer."""
    async with engine.execution_options(sqlite_begin="DEFERRED").connect() as connection:
        text: str | None = (await connection.execute(select(table.c.position))).scalar_one()
    return text
