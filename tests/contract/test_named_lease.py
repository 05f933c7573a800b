"""A named lease: one owner at a time, and nothing is kept that a former owner writes under its guard."""

# ruff: noqa: PT012 - what raises is the end of the block, so the block belongs inside

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import MetaData, event, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from jobs.schedule.batching.tenant_scope import ForeignTenantError, TenantScope
from jobs.schedule.leasing.held_lease import HeldLease
from jobs.schedule.leasing.lease_error import LeaseHeldError, LeaseLostError
from jobs.schedule.leasing.named_lease import NamedLeases
from tests.support.databases import create_tables
from tests.support.unit_of_work import Interrupted, Model, Order, checked_out, stored
from tests.support.waiting import eventually
from uow import AutocommitError, RollbackOnlyError, SelfManagedUnitOfWork, TextError, UnitNotActiveError
from uow.sql.clock import PinnedClock
from uow.sql.lease import LeaseStore, add_lease_table
from uow.sql.step import run_step

metadata = MetaData()
table = add_lease_table(metadata)

SECONDS = 30
ODD_TENANTS = ("acme", "ACME", "acme ", "é", "e\u0301", "a/b # c", "' OR 1=1 --", "😀" * 100, "😀" * 99 + "x")


@pytest.fixture
def clock() -> PinnedClock:
    return PinnedClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
async def ready(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    await create_tables(engine, metadata)
    await create_tables(engine, Model.metadata)
    yield engine
    assert checked_out(engine) == 0


@pytest.fixture
def leases(ready: AsyncEngine) -> NamedLeases:
    return NamedLeases(ready, LeaseStore(table))


@pytest.fixture
def pinned(ready: AsyncEngine, clock: PinnedClock) -> NamedLeases:
    """On a clock that the test moves."""
    return NamedLeases(ready, LeaseStore(table, clock=clock), owner="first")


@pytest.fixture
def successor(ready: AsyncEngine, clock: PinnedClock) -> NamedLeases:
    return NamedLeases(ready, LeaseStore(table, clock=clock), owner="successor")


@pytest.fixture
def unit(ready: AsyncEngine) -> SelfManagedUnitOfWork:
    return SelfManagedUnitOfWork(async_sessionmaker(ready, expire_on_commit=False))


@contextlib.asynccontextmanager
async def lost_at_the_end(leases: NamedLeases) -> AsyncIterator[HeldLease]:
    """A lease that is not ours any more when its block ends, which is told."""
    with pytest.raises(LeaseLostError):
        async with leases.hold("month-end", seconds=SECONDS) as held:
            yield held


async def taken_away(engine: AsyncEngine) -> None:
    """Another owner has the lease now."""
    async with engine.begin() as connection:
        await connection.execute(update(table).values(owner="thief", fencing_token=table.c.fencing_token + 1))


async def test_of_many_that_ask_at_once_one_gets_it_and_the_others_hear_whose_it_is(
    leases: NamedLeases,
) -> None:
    done = asyncio.Event()
    refused: list[LeaseHeldError] = []

    async def work() -> int | None:
        try:
            async with leases.hold("month-end", seconds=SECONDS) as held:
                await done.wait()
                return held.token
        except LeaseHeldError as error:
            refused.append(error)
            if len(refused) == 7:
                done.set()
            return None

    tokens = await asyncio.gather(*(work() for _ in range(8)))
    assert [token for token in tokens if token is not None] == [1]
    async with leases.hold("month-end", seconds=SECONDS) as held:
        with pytest.raises(LeaseHeldError, match=f"month-end.*{held.owner} holds it with token 2") as caught:
            await leases.hold("month-end", seconds=SECONDS).__aenter__()
    assert (caught.value.owner, caught.value.token) == (held.owner, 2)


async def test_it_is_free_after_its_block_however_that_ended_and_the_token_goes_on(
    leases: NamedLeases,
) -> None:
    async with leases.hold("month-end", seconds=SECONDS) as held:
        assert await leases.holder("month-end") == (held.owner, 1)
    assert await leases.holder("month-end") is None
    with pytest.raises(ZeroDivisionError):
        async with leases.hold("month-end", seconds=SECONDS) as held:
            assert held.token == 2
            raise ZeroDivisionError
    async with leases.hold("month-end", seconds=SECONDS) as held:
        assert held.token == 3


async def test_what_is_written_under_the_guard_of_a_held_lease_is_kept(
    ready: AsyncEngine, leases: NamedLeases, unit: SelfManagedUnitOfWork
) -> None:
    async with leases.hold("month-end", seconds=SECONDS) as held:
        async with unit:
            await held.guard(unit)
            unit.session.add(Order(id=1))
        async with ready.begin() as connection:
            await connection.run_sync(held.guard_on)
            await connection.execute(insert(Order).values(id=2, customer="Ann"))
    assert await stored(ready, Order) == [1, 2]


async def test_an_old_token_keeps_nothing_once_another_has_taken_over(
    ready: AsyncEngine,
    pinned: NamedLeases,
    successor: NamedLeases,
    clock: PinnedClock,
    unit: SelfManagedUnitOfWork,
) -> None:
    async with lost_at_the_end(pinned) as old:
        clock.advance(SECONDS)
        async with successor.hold("month-end", seconds=SECONDS) as new:
            assert new.token == old.token + 1
            with pytest.raises(LeaseLostError, match="token 1"):
                async with unit:
                    unit.session.add(Order(id=1))
                    await old.guard(unit)
            async with unit:
                await new.guard(unit)
                unit.session.add(Order(id=2))
            with pytest.raises(LeaseLostError):
                async with ready.begin() as connection:
                    await connection.execute(insert(Order).values(id=3, customer="Ann"))
                    await connection.run_sync(old.guard_on)
    assert await stored(ready, Order) == [2]


async def test_a_refusal_that_the_code_catches_rolls_the_unit_back_all_the_same(
    ready: AsyncEngine, pinned: NamedLeases, clock: PinnedClock, unit: SelfManagedUnitOfWork
) -> None:
    async with lost_at_the_end(pinned) as held:
        clock.advance(SECONDS)
        with pytest.raises(RollbackOnlyError):
            async with unit:
                with contextlib.suppress(LeaseLostError):
                    await held.guard(unit)
                unit.session.add(Order(id=1))
    assert await stored(ready, Order) == []


async def test_at_exactly_the_limit_the_guard_refuses_and_just_before_it_prolongs(
    pinned: NamedLeases, successor: NamedLeases, clock: PinnedClock, unit: SelfManagedUnitOfWork
) -> None:
    async with lost_at_the_end(pinned) as held:
        clock.advance(SECONDS - 0.001)
        async with unit:
            await held.guard(unit)
        clock.advance(SECONDS - 0.001)
        with pytest.raises(LeaseHeldError):
            await successor.hold("month-end", seconds=SECONDS).__aenter__()
        clock.advance(0.001)
        with pytest.raises(LeaseLostError):
            async with unit:
                await held.guard(unit)


async def test_a_unit_that_rolls_back_does_not_prolong(
    pinned: NamedLeases, successor: NamedLeases, clock: PinnedClock, unit: SelfManagedUnitOfWork
) -> None:
    async with lost_at_the_end(pinned) as held:
        clock.advance(SECONDS - 1)
        with pytest.raises(ZeroDivisionError):
            async with unit:
                await held.guard(unit)
                raise ZeroDivisionError
        clock.advance(1)
        async with successor.hold("month-end", seconds=SECONDS) as new:
            assert new.token == 2


async def test_nobody_can_take_over_between_the_guard_and_the_commit(
    ready: AsyncEngine,
    pinned: NamedLeases,
    successor: NamedLeases,
    clock: PinnedClock,
    unit: SelfManagedUnitOfWork,
) -> None:
    begun = asyncio.Event()

    async def take_over() -> list[int]:
        begun.set()
        async with successor.hold("month-end", seconds=SECONDS):
            return await stored(ready, Order)

    async with lost_at_the_end(pinned) as held:
        async with unit:
            await held.guard(unit)
            unit.session.add(Order(id=1))
            clock.advance(SECONDS + 1)
            taking_over = asyncio.create_task(take_over())
            await begun.wait()
            await asyncio.wait([taking_over], timeout=0.3)
            assert not taking_over.done()
        assert await taking_over == [1]


async def test_it_is_renewed_while_its_block_runs(
    ready: AsyncEngine, leases: NamedLeases, unit: SelfManagedUnitOfWork
) -> None:
    async def expiry() -> datetime:
        async with ready.execution_options(sqlite_begin="DEFERRED").connect() as connection:
            moment = await connection.scalar(select(table.c.expires_at))
        assert moment is not None
        return moment

    async with leases.hold("month-end", seconds=2) as held:
        first = await expiry()
        await eventually(lambda: _is_later(expiry, first, by=2.2))
        async with unit:
            await held.guard(unit)
            unit.session.add(Order(id=1))
        assert held.token == 1
        assert not held.lost
    assert await stored(ready, Order) == [1]


async def _is_later(expiry: object, first: datetime, *, by: float) -> bool:
    return (await expiry() - first).total_seconds() > by  # type: ignore[operator]


async def test_a_lease_that_another_has_taken_cancels_the_block(
    ready: AsyncEngine, leases: NamedLeases
) -> None:
    with pytest.raises(LeaseLostError):
        async with leases.hold("month-end", seconds=1) as held:
            await taken_away(ready)
            try:
                await asyncio.Event().wait()
            finally:
                lost_inside = held.lost
    assert lost_inside
    assert await leases.holder("month-end") == ("thief", 2)


async def test_a_guarded_unit_that_keeps_the_lease_from_renewal_too_long_is_cancelled_and_keeps_nothing(
    ready: AsyncEngine, leases: NamedLeases, unit: SelfManagedUnitOfWork
) -> None:
    with pytest.raises(LeaseLostError):
        async with leases.hold("month-end", seconds=1) as held, unit:
            await held.guard(unit)
            unit.session.add(Order(id=1))
            await unit.session.flush()
            await asyncio.Event().wait()
    assert await stored(ready, Order) == []
    async with leases.hold("month-end", seconds=1) as held:
        assert held.token == 2


async def test_a_lease_is_renewed_no_longer_than_its_limit(leases: NamedLeases) -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(LeaseLostError):
        async with leases.hold("month-end", seconds=1, limit_seconds=1.5):
            await asyncio.Event().wait()
    assert 1 <= asyncio.get_running_loop().time() - began < 10
    async with leases.hold("month-end", seconds=1) as held:
        assert held.token == 2


async def test_a_cancelled_block_gives_the_lease_up_and_the_cancellation_goes_on(
    leases: NamedLeases,
) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with leases.hold("month-end", seconds=SECONDS):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await leases.holder("month-end") is None


async def test_a_timeout_of_the_block_is_its_own(leases: NamedLeases) -> None:
    with pytest.raises(TimeoutError):
        async with leases.hold("month-end", seconds=SECONDS):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()


@pytest.mark.parametrize("late", [False, True])
async def test_wherever_its_beginning_is_cancelled_no_lease_stays_behind(
    leases: NamedLeases, late: bool
) -> None:
    async def work() -> None:
        async with leases.hold("month-end", seconds=SECONDS):
            pass

    step = 0
    while True:
        step += 1
        interrupted = Interrupted(work(), step, late=late)

        async def run(interrupted: Interrupted = interrupted) -> None:
            await interrupted

        task = asyncio.create_task(run())
        await asyncio.wait([task])
        assert await leases.holder("month-end") is None, f"cancelled at wait {step}"
        if interrupted.steps < step:
            break
        assert step < 100
    assert step > 3


async def test_leases_of_different_names_and_tenants_do_not_meet(leases: NamedLeases) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for name in ("month-end", "Month-end"):
            for tenant in (None, *ODD_TENANTS):
                held = await stack.enter_async_context(leases.hold(name, seconds=SECONDS, tenant=tenant))
                assert held.token == 1


async def test_inside_a_scope_a_lease_is_the_tenants(leases: NamedLeases) -> None:
    async with leases.hold("month-end", seconds=SECONDS):
        with TenantScope("acme").entered():
            async with leases.hold("month-end", seconds=SECONDS) as held:
                assert held.tenant == "acme"
                with pytest.raises(LeaseHeldError, match="'month-end' of tenant 'acme'"):
                    await leases.hold("month-end", seconds=SECONDS, tenant="acme").__aenter__()
            with pytest.raises(ForeignTenantError, match="lease 'month-end' is for tenant 'other'"):
                await leases.hold("month-end", seconds=SECONDS, tenant="other").__aenter__()


async def test_a_name_of_the_frameworks_own_leases_is_another(
    ready: AsyncEngine, leases: NamedLeases
) -> None:
    store = LeaseStore(table)
    await run_step(ready, lambda c: store.acquire(c, "schedules", owner="host", lease_seconds=SECONDS))
    async with leases.hold("schedules", seconds=SECONDS) as held:
        assert held.token == 1


@pytest.mark.parametrize("database_kind", ["sqlite"])
@pytest.mark.parametrize("name", ["", "x" * 101, "a b", "a/b", "ä", "a\n", 7])
async def test_a_name_that_is_none_is_refused(leases: NamedLeases, name: str) -> None:
    with pytest.raises(TextError, match="lease name must be 1 to 100 characters"):
        await leases.hold(name, seconds=SECONDS).__aenter__()


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_seconds_that_are_none_are_refused(leases: NamedLeases) -> None:
    with pytest.raises(ValueError, match="seconds must be at least 1"):
        await leases.hold("month-end", seconds=0.5).__aenter__()
    with pytest.raises(ValueError, match="limit_seconds must be positive"):
        await leases.hold("month-end", seconds=1, limit_seconds=0).__aenter__()


async def test_a_guard_needs_a_transaction(
    ready: AsyncEngine, leases: NamedLeases, unit: SelfManagedUnitOfWork
) -> None:
    async with leases.hold("month-end", seconds=SECONDS) as held:
        with pytest.raises(UnitNotActiveError):
            await held.guard(unit)
        by_itself = ready.execution_options(isolation_level="AUTOCOMMIT", sqlite_begin="DEFERRED")
        if ready.dialect.name != "sqlite":  # prepared, it begins always
            async with by_itself.connect() as connection:
                with pytest.raises(AutocommitError):
                    await connection.run_sync(held.guard_on)


async def test_sessions_that_are_bound_by_their_classes_can_be_guarded(
    ready: AsyncEngine, leases: NamedLeases
) -> None:
    sessions = async_sessionmaker[AsyncSession](binds={Model: ready}, expire_on_commit=False)
    unit = SelfManagedUnitOfWork(sessions)
    async with leases.hold("month-end", seconds=SECONDS) as held, unit:
        await held.guard(unit)
        unit.session.add(Order(id=1))
    assert await stored(ready, Order) == [1]


async def test_a_database_that_is_away_at_the_end_does_not_undo_what_was_done(
    ready: AsyncEngine, leases: NamedLeases, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionResetError("away")

    async with leases.hold("month-end", seconds=SECONDS):
        event.listen(ready.sync_engine, "before_cursor_execute", refuse)
    event.remove(ready.sync_engine, "before_cursor_execute", refuse)
    assert "was not released, it runs out: ConnectionResetError: away" in caplog.text
    assert await leases.holder("month-end") is not None
