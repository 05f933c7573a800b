"""Batches go on where the last commit left them, and the cursor never tells more than is committed."""

# ruff: noqa: PT012 - what raises is the end of the block, so the block belongs inside

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import MetaData, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.schedule.batching.batch import Batch, BatchReport, SourceError
from jobs.schedule.batching.batches import run_batches
from jobs.schedule.batching.cursor import BatchCursor, CursorMovedError
from jobs.schedule.batching.cursor_store import CursorState
from jobs.schedule.batching.cursor_table import CursorsNotMappedError, add_cursor_table, cursor_table
from jobs.schedule.batching.position import PositionError, PositionUnreadableError
from jobs.schedule.batching.tenant_scope import ForeignTenantError, TenantScope
from jobs.schedule.batching.tenants import for_each_tenant
from tests.support.batching import Numbers, Orders, cursor_on, cursor_text, metadata, table
from tests.support.databases import create_tables
from tests.support.statements import recorded_statements
from tests.support.unit_of_work import Model, Order, checked_out, stored
from uow import RollbackOnlyError, TextError, UnitNotActiveError


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    await create_tables(engine, metadata)
    await create_tables(engine, Model.metadata)
    yield engine
    assert checked_out(engine) == 0


@pytest.fixture
def orders(ready: AsyncEngine) -> Orders:
    return Orders(ready)


@pytest.fixture
def cursor(ready: AsyncEngine) -> BatchCursor:
    return cursor_on(ready)


async def run(
    orders: Orders, cursor: BatchCursor, last: int, *, size: int = 3, **options: Any
) -> BatchReport:
    """A run over the numbers to `last`, effects and cursor in one unit."""
    return await run_batches(
        Numbers(last), orders, cursor, size=size, unit_of_work=orders.unit_of_work, **options
    )


async def test_everything_is_applied_once_in_bounded_batches_and_a_later_run_goes_on(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    numbers = Numbers(7)
    report = await run_batches(numbers, orders, cursor, size=3, unit_of_work=orders.unit_of_work)
    assert report == BatchReport(batches=3, items=7, position=7, finished=True)
    assert orders.applied == [[1, 2, 3], [4, 5, 6], [7]]
    assert numbers.asked == [(None, 3), (3, 3), (6, 3), (7, 3)]
    assert await run(orders, cursor, 7) == BatchReport(batches=0, items=0, position=7, finished=True)
    assert (await run(orders, cursor, 9)).items == 2
    assert await stored(ready, Order) == list(range(1, 10))


async def test_two_hundred_are_asked_for_unless_told_otherwise(orders: Orders, cursor: BatchCursor) -> None:
    numbers = Numbers(201)
    await run_batches(numbers, orders.alone, cursor)
    assert [size for _, size in numbers.asked] == [200, 200, 200]
    assert [len(applied) for applied in orders.applied] == [200, 1]


async def test_an_empty_source_is_at_its_end_at_once(orders: Orders, cursor: BatchCursor) -> None:
    report = await run(orders, cursor, 0)
    assert report == BatchReport(batches=0, items=0, position=None, finished=True)
    assert orders.applied == []
    assert await cursor.load() == CursorState(None, 0)


async def test_effects_and_cursor_are_kept_by_one_commit(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    seen: list[Any] = []

    async def look(numbers: Sequence[int]) -> None:
        seen.append((await stored(ready, Order), await cursor_text(ready)))

    orders.before = look
    await run(orders, cursor, 4)
    assert seen == [([], None), ([1, 2, 3], "3")]
    assert await cursor_text(ready) == "4"


async def test_effects_elsewhere_are_there_before_the_cursor_moves(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    seen: list[Any] = []

    async def look(numbers: Sequence[int]) -> None:
        seen.append((await stored(ready, Order), await cursor_text(ready)))

    orders.before = look
    await run_batches(Numbers(4), orders.alone, cursor, size=3)
    assert seen == [([1, 2, 3], None), ([1, 2, 3, 4], "3")]
    assert await cursor_text(ready) == "4"


@pytest.mark.parametrize("together", [True, False])
async def test_a_batch_whose_apply_raises_moves_nothing_and_comes_again(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor, together: bool
) -> None:
    def fail(numbers: Sequence[int]) -> None:
        if 5 in numbers:
            raise ZeroDivisionError

    async def go() -> BatchReport:
        if together:
            return await run(orders, cursor, 7)
        return await run_batches(Numbers(7), orders.alone, cursor, size=3)

    orders.before = fail
    with pytest.raises(ZeroDivisionError):
        await go()
    assert await cursor_text(ready) == "3"
    # What was committed elsewhere stays, and the batch comes again.
    assert await stored(ready, Order) == ([1, 2, 3] if together else [1, 2, 3, 4, 5, 6])
    orders.before = lambda numbers: None
    assert (await go()).items == 4
    assert orders.applied == [[1, 2, 3], [4, 5, 6], [4, 5, 6], [7]]
    assert await stored(ready, Order) == list(range(1, 8))


async def test_of_two_runners_on_one_cursor_one_applies_and_the_other_hears_of_it(
    ready: AsyncEngine, orders: Orders
) -> None:
    other = Orders(ready)
    both_have_read = asyncio.Barrier(2)

    async def go(runner: Orders) -> BatchReport:
        numbers = Numbers(40)

        async def read(position: Any, size: int) -> Batch[int]:
            if position is None:
                await both_have_read.wait()
            return await numbers(position, size)

        return await run_batches(read, runner, cursor_on(ready), size=2, unit_of_work=runner.unit_of_work)

    racing = [asyncio.create_task(go(each)) for each in (orders, other)]
    await asyncio.wait(racing)
    lost = [task for task in racing if task.exception() is not None]
    assert [type(task.exception()) for task in lost] == [CursorMovedError]
    assert await stored(ready, Order) == list(range(1, 41))
    applied = sorted(orders.applied + other.applied)
    assert applied == [[number, number + 1] for number in range(1, 41, 2)]


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_the_other_hears_of_it_at_every_isolation_level(ready: AsyncEngine, isolation: str) -> None:
    strict = ready.execution_options(isolation_level=isolation)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def hold(numbers: Sequence[int]) -> None:
        entered.set()
        await go_on.wait()

    first, second = Orders(strict, before=hold), Orders(strict)
    winner = asyncio.create_task(run(first, cursor_on(ready), 2))
    await entered.wait()
    loser = asyncio.create_task(run(second, cursor_on(ready), 2))
    await asyncio.wait([loser], timeout=0.3)
    assert not loser.done()
    go_on.set()
    assert (await winner).items == 2
    with pytest.raises(CursorMovedError):
        await loser
    assert second.applied == []


async def test_a_runner_with_effects_elsewhere_hears_that_another_has_applied_the_batch_too(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    async def overtake(numbers: Sequence[int]) -> None:
        await run_batches(Numbers(3), Orders(ready).alone, cursor_on(ready), size=3)

    orders.before = overtake
    with pytest.raises(CursorMovedError, match=r"cursor 'orders\.scan' was moved"):
        await run_batches(Numbers(7), orders.alone, cursor, size=3)
    assert await stored(ready, Order) == [1, 2, 3]
    assert await cursor_text(ready) == "3"


async def test_effects_of_a_unit_go_with_a_cursor_that_was_moved_even_when_the_code_catches_it(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    seen = await cursor.load()
    moved = await cursor.advance(seen, 1)
    with pytest.raises(RollbackOnlyError):
        async with orders.unit_of_work() as unit:
            unit.session.add(Order(id=1))
            with contextlib.suppress(CursorMovedError):
                await cursor.advance(seen, 2, unit=unit)
    with pytest.raises(UnitNotActiveError):
        await cursor.advance(moved, 2, unit=orders.unit_of_work())
    assert await stored(ready, Order) == []
    assert await cursor.load() == moved == CursorState("1", 1)


async def test_a_source_that_gives_more_than_asked_is_refused(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    async def generous(position: Any, size: int) -> Batch[int]:
        return Batch(range(size + 1), size)

    with pytest.raises(SourceError, match="gave 4 items although 3 were asked for"):
        await run_batches(generous, orders.alone, cursor, size=3)
    assert orders.applied == []
    assert await cursor_text(ready) is None


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (Batch([1], None), "items without a position"),
        (Batch([1], 5), "asked from, so it would never end"),
        (Batch((), 5), "asked from, so it would never end"),
        ([1, 2], "gave list; it must give a Batch"),
        (None, "gave NoneType; it must give a Batch"),
    ],
)
@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_a_source_that_breaks_its_rules_is_refused(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor, batch: Any, text: str
) -> None:
    async def read(position: Any, size: int) -> Any:
        return batch

    await cursor.reset(5)
    with pytest.raises(SourceError, match=text):
        await run_batches(read, orders.alone, cursor)
    assert orders.applied == []
    assert await cursor_text(ready) == "5"


async def test_a_range_of_the_source_without_items_is_passed(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    async def read(position: Any, size: int) -> Batch[int]:
        pages = {None: Batch((), "a"), "a": Batch([7], "b"), "b": Batch((), "c"), "c": Batch()}
        return pages[position]

    for apply, options in ((orders, {"unit_of_work": orders.unit_of_work}), (orders.alone, {})):
        await cursor.reset()
        report = await run_batches(read, apply, cursor, **options)  # type: ignore[call-overload]
        assert report == BatchReport(batches=3, items=1, position="c", finished=True)
    assert orders.applied == [[7], [7]]


POSITIONS: list[Any] = [
    2**63,
    -(2**4000),
    10**3999,
    0,
    False,
    "",
    " \x00\n\ud800 'é' \\ \" 😀",
    0.1,
    -0.0,
    1e308,
    [2**64, "2026-01-01T00:00:00Z", None, [True, {"b": 1, "a": []}]],
    {"page": "x" * 3900, "": None},
]


async def test_a_position_comes_back_exactly_as_it_was_whatever_json_it_is(
    ready: AsyncEngine, cursor: BatchCursor
) -> None:
    state = await cursor.load()
    for position in POSITIONS:
        state = await cursor.advance(state, position)
        loaded = await cursor_on(ready).load()
        assert loaded == state
        assert repr(loaded.position) == repr(position) or loaded.position == position
        assert type(loaded.position) is type(position)
    # The order of keys says nothing, and a tuple is a list.
    assert (await cursor.advance(state, {"b": (1, 2), "a": 1})).text == '{"a":1,"b":[1,2]}'


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_a_position_that_cannot_be_kept_is_refused_before_any_effect(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    async def read(_: Any, size: int) -> Batch[int]:
        return Batch([1], datetime(2026, 1, 1, tzinfo=UTC))

    for apply, options in ((orders, {"unit_of_work": orders.unit_of_work}), (orders.alone, {})):
        with pytest.raises(PositionError, match="datetime"):
            await run_batches(read, apply, cursor, **options)  # type: ignore[call-overload]
    assert orders.applied == []
    assert await cursor_text(ready) is None


async def test_what_a_source_does_to_its_position_changes_no_other(
    orders: Orders, cursor: BatchCursor
) -> None:
    async def read(position: Any, size: int) -> Batch[int]:
        last = position.pop() if position else 0
        return Batch([last + 1], [last + 1]) if last < 3 else Batch()

    await run_batches(read, orders.alone, cursor)
    assert (await cursor.load()).position == [3]


@pytest.mark.parametrize("together", [True, False])
async def test_after_a_cancellation_the_running_batch_ends_and_no_other_begins(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor, together: bool
) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def hold(numbers: Sequence[int]) -> None:
        entered.set()
        await go_on.wait()

    orders.before = hold
    work = run(orders, cursor, 9) if together else run_batches(Numbers(9), orders.alone, cursor, size=3)
    running = asyncio.create_task(work)
    await entered.wait()
    running.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert orders.applied == [[1, 2, 3]]
    assert await stored(ready, Order) == [1, 2, 3]
    assert await cursor_text(ready) == "3"


async def test_a_batch_that_does_not_end_after_a_cancellation_is_cancelled_and_moves_nothing(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    entered = asyncio.Event()

    async def hang(numbers: Sequence[int]) -> None:
        entered.set()
        await asyncio.Event().wait()

    orders.before = hang
    running = asyncio.create_task(run(orders, cursor, 9, patience_seconds=0.1))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await stored(ready, Order) == []
    assert await cursor_text(ready) is None


async def test_a_cancelled_read_is_not_waited_for(orders: Orders, cursor: BatchCursor) -> None:
    entered = asyncio.Event()

    async def hang(position: Any, size: int) -> Batch[int]:
        entered.set()
        await asyncio.Event().wait()
        return Batch()

    running = asyncio.create_task(run_batches(hang, orders.alone, cursor))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)


async def test_after_a_stop_no_batch_begins(ready: AsyncEngine, orders: Orders, cursor: BatchCursor) -> None:
    stopped = asyncio.Event()
    orders.before = lambda numbers: stopped.set()
    report = await run(orders, cursor, 9, stop=stopped.is_set)
    assert report == BatchReport(batches=1, items=3, position=3, finished=False)
    assert (await run(orders, cursor, 9, stop=lambda: True)).batches == 0
    assert await stored(ready, Order) == [1, 2, 3]


async def test_each_tenant_has_a_cursor_of_its_own(ready: AsyncEngine) -> None:
    tenants = ("acme", "ACME", "acme ", "é", "e\u0301", "'", "😀" * 100)

    async def work(scope: TenantScope) -> None:
        orders = Orders(ready)
        last = tenants.index(scope.tenant) + 1
        report = await run_batches(Numbers(last), orders.alone, cursor_on(ready), size=50)
        assert report.items == last

    (await for_each_tenant(tenants, work)).raise_if_failed()
    for number, tenant in enumerate(tenants):
        assert (await cursor_on(ready, tenant=tenant).load()).position == number + 1
    assert (await cursor_on(ready).load()).position is None
    assert (await cursor_on(ready, "Orders.scan", "acme").load()).position is None


async def test_a_cursor_is_of_no_use_to_another_tenant(ready: AsyncEngine, cursor: BatchCursor) -> None:
    others = cursor_on(ready, tenant="other")
    state = await others.load()
    with TenantScope("acme").entered():
        for foreign in (cursor, others):
            with pytest.raises(ForeignTenantError, match=r"cursor 'orders\.scan'"):
                await foreign.load()
            with pytest.raises(ForeignTenantError):
                await foreign.advance(state, 1)
            with pytest.raises(ForeignTenantError):
                await foreign.reset()
        with pytest.raises(ForeignTenantError, match=r"'orders\.scan' is for tenant 'other'"):
            cursor_on(ready, tenant="other")
        assert (await cursor_on(ready, tenant="acme").load()).position is None


async def test_a_reset_takes_the_cursor_from_who_runs(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    async def reset(numbers: Sequence[int]) -> None:
        await cursor_on(ready).reset()

    orders.before = reset
    with pytest.raises(CursorMovedError):
        await run_batches(Numbers(9), orders.alone, cursor, size=3)
    await cursor_on(ready).reset([1, 2])
    assert (await cursor.load()).position == [1, 2]
    fresh = cursor_on(ready, "another")
    await fresh.reset(7)
    assert await fresh.load() == CursorState("7", 1)


async def test_first_use_at_once_makes_one_cursor(ready: AsyncEngine) -> None:
    states = await asyncio.gather(*(cursor_on(ready).load() for _ in range(8)))
    assert set(states) == {CursorState(None, 0)}
    async with ready.connect() as connection:
        assert len((await connection.execute(select(table.c.name))).all()) == 1


async def test_a_position_changed_by_hand_to_no_json_is_told(ready: AsyncEngine, cursor: BatchCursor) -> None:
    await cursor.reset(1)
    async with ready.begin() as connection:
        await connection.execute(update(table).values(position="{secret"))
    with pytest.raises(PositionUnreadableError, match="position of 7 characters is not JSON") as caught:
        await run_batches(Numbers(1), Orders(ready).alone, cursor)
    assert "secret" not in str(caught.value)


async def test_moving_a_cursor_is_one_statement(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    state = await cursor.load()
    with recorded_statements(ready) as statements:
        state = await cursor.advance(state, 1)
        assert len(statements) == 1
        async with orders.unit_of_work() as unit:
            await cursor.advance(state, 2, unit=unit)
        assert len([each for each in statements if "jobs_cursor" in each]) == 2
        await cursor.load()
    assert len([each for each in statements if "jobs_cursor" in each]) == 3


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_what_cannot_be_a_name_or_a_size_is_refused(
    ready: AsyncEngine, orders: Orders, cursor: BatchCursor
) -> None:
    for name in ("", "x" * 101, "a b", "é"):
        with pytest.raises(TextError, match="cursor name must be 1 to 100"):
            cursor_on(ready, name)
    with pytest.raises(TextError, match="tenant"):
        cursor_on(ready, tenant="")
    for size in (0, 10_001, True):
        with pytest.raises(ValueError, match="size must be a whole number, 1 to 10000"):
            await run(orders, cursor, 1, size=size)
    with pytest.raises(ValueError, match="patience_seconds must be positive"):
        await run(orders, cursor, 1, patience_seconds=0)


def test_metadata_without_the_table_is_refused_by_name() -> None:
    with pytest.raises(CursorsNotMappedError, match="add_cursor_table"):
        cursor_table(MetaData())
    assert add_cursor_table(metadata) is cursor_table(metadata) is table
