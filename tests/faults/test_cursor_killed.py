"""A process killed between the effects of a batch and its cursor loses nothing and repeats what may be."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.faults.cursor_program import LAST, SIZE, run
from tests.support.batching import cursor_text, metadata
from tests.support.databases import create_tables, engine_for
from tests.support.process import kill, program, said
from tests.support.unit_of_work import Model, Order, stored

ALL = list(range(1, LAST + 1))
FIRST, SECOND, REST = ALL[:SIZE], ALL[SIZE : 2 * SIZE], [ALL[2 * SIZE : 3 * SIZE], ALL[3 * SIZE :]]


@pytest.fixture
async def ready(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with engine_for(database_url) as engine:
        await create_tables(engine, metadata)
        await create_tables(engine, Model.metadata)
        yield engine


async def killed(url: str, how: str, point: str) -> None:
    """A process that has come to this point is dead."""
    async with program("tests.faults.cursor_program", url, how, point) as process:
        await said(process, "here")
        await kill(process)


async def test_effects_and_cursor_of_one_unit_happen_once(ready: AsyncEngine, database_url: str) -> None:
    await killed(database_url, "together", "applied")
    assert await stored(ready, Order) == FIRST
    assert await cursor_text(ready) == "3"
    orders = await run(database_url, "together")
    assert orders.applied == [SECOND, *REST]
    assert await stored(ready, Order) == ALL
    assert await cursor_text(ready) == "10"


async def test_effects_elsewhere_come_again_and_hold_because_they_are_idempotent(
    ready: AsyncEngine, database_url: str
) -> None:
    await killed(database_url, "elsewhere", "applied")
    assert await stored(ready, Order) == FIRST + SECOND
    assert await cursor_text(ready) == "3"
    orders = await run(database_url, "elsewhere")
    assert orders.applied == [SECOND, *REST]
    assert await stored(ready, Order) == ALL
    assert await cursor_text(ready) == "10"


@pytest.mark.parametrize("how", ["together", "elsewhere"])
async def test_a_batch_whose_cursor_was_committed_never_comes_again(
    ready: AsyncEngine, database_url: str, how: str
) -> None:
    await killed(database_url, how, "moved")
    assert await stored(ready, Order) == FIRST + SECOND
    assert await cursor_text(ready) == "6"
    orders = await run(database_url, how)
    assert orders.applied == REST
    assert await stored(ready, Order) == ALL


async def test_a_survivor_takes_over_from_one_that_dies_in_the_middle_of_a_batch(
    ready: AsyncEngine, database_url: str
) -> None:
    await killed(database_url, "together", "applied")
    await killed(database_url, "together", "applied")
    await killed(database_url, "together", "moved")
    assert (await run(database_url, "together")).applied == REST
    assert await stored(ready, Order) == ALL
