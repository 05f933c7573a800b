"""Leases in hand are renewed beside the event loop, and what cannot be renewed is lost in time."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.waiting import eventually
from uow.loop.renewal import LeaseKeeper

LEASE_SECONDS = 0.8
pytestmark = pytest.mark.parametrize("database_kind", ["postgresql"])


class Renewals:
    """Plays the store: notes each call, and answers as the test says."""

    def __init__(self) -> None:
        self.calls: list[frozenset[str]] = []
        self.threads: set[str] = set()
        self.lost: set[str] = set()
        self.failing = False
        self.hanging: threading.Event | None = None

    def __call__(self, connection: Connection, keys: Collection[str]) -> Collection[str]:
        self.calls.append(frozenset(keys))
        self.threads.add(threading.current_thread().name)
        connection.execute(text("select 1"))
        if self.failing:
            raise ConnectionResetError("the database is away")
        return self.lost.intersection(keys)


class Told:
    """Which leases the owner was told are lost, and in which thread."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.thread: threading.Thread | None = None

    def __call__(self, key: str) -> None:
        self.keys.append(key)
        self.thread = threading.current_thread()


@pytest.fixture
def renewals() -> Renewals:
    return Renewals()


@pytest.fixture
async def keeper(engine: AsyncEngine, renewals: Renewals) -> AsyncIterator[LeaseKeeper[str]]:
    keeper = LeaseKeeper(engine, renewals, lease_seconds=LEASE_SECONDS, name="test renewal")
    yield keeper
    await asyncio.wait_for(keeper.close(), 5)


async def test_all_that_is_due_is_renewed_together_in_a_thread_of_its_own(
    keeper: LeaseKeeper[str], renewals: Renewals
) -> None:
    now = time.monotonic()
    keeper.hold(["a", "b"], claimed_at=now)
    keeper.hold(["c"], claimed_at=now)
    await eventually(lambda: len(renewals.calls) >= 4)
    assert set(renewals.calls) == {frozenset({"a", "b", "c"})}
    assert renewals.threads == {"test renewal"}
    assert keeper.still_held(["a", "b", "c", "never"]) == {"a", "b", "c"}


async def test_renewal_goes_on_while_the_event_loop_is_blocked(
    keeper: LeaseKeeper[str], renewals: Renewals
) -> None:
    told = Told()
    keeper.hold(["a"], claimed_at=time.monotonic(), on_lost=told)
    time.sleep(2 * LEASE_SECONDS)
    await asyncio.sleep(0)
    assert len(renewals.calls) >= 2
    assert told.keys == []


async def test_what_has_ended_is_renewed_no_more(keeper: LeaseKeeper[str], renewals: Renewals) -> None:
    keeper.hold(["a", "b"], claimed_at=time.monotonic())
    keeper.let_go(["a"])
    await eventually(lambda: len(renewals.calls) >= 2)
    assert set(renewals.calls) == {frozenset({"b"})}
    assert keeper.still_held(["a"]) == frozenset()


async def test_the_owner_is_told_in_its_own_loop_what_another_has_taken(
    keeper: LeaseKeeper[str], renewals: Renewals
) -> None:
    told = Told()
    renewals.lost = {"b"}
    keeper.hold(["a", "b"], claimed_at=time.monotonic(), on_lost=told)
    await eventually(lambda: told.keys == ["b"])
    assert told.thread is threading.current_thread()
    assert keeper.still_held(["a", "b"]) == {"a"}


async def test_a_lease_that_cannot_be_renewed_is_lost_when_it_has_run_out_and_not_before(
    keeper: LeaseKeeper[str], renewals: Renewals
) -> None:
    told = Told()
    renewals.failing = True
    began = time.monotonic()
    keeper.hold(["a"], claimed_at=began, on_lost=told)
    await eventually(lambda: told.keys == ["a"])
    assert time.monotonic() - began >= LEASE_SECONDS
    assert len(renewals.calls) >= 2


async def test_an_outage_shorter_than_the_lease_loses_nothing(
    keeper: LeaseKeeper[str], renewals: Renewals
) -> None:
    told = Told()
    renewals.failing = True
    keeper.hold(["a"], claimed_at=time.monotonic(), on_lost=told)
    await eventually(lambda: renewals.calls)
    renewals.failing = False
    calls = len(renewals.calls)
    await eventually(lambda: len(renewals.calls) >= calls + 3)
    assert told.keys == []


async def test_a_renewal_that_hangs_does_not_keep_a_lease_that_has_run_out(engine: AsyncEngine) -> None:
    told = Told()
    entered = threading.Event()

    def hang(connection: Connection, keys: Collection[str]) -> Collection[str]:
        entered.set()
        _hang(connection)
        return ()

    keeper: LeaseKeeper[str] = LeaseKeeper(engine, hang, lease_seconds=LEASE_SECONDS, name="hanging")
    keeper.hold(["a"], claimed_at=time.monotonic(), on_lost=told)
    await eventually(entered.is_set)
    await eventually(lambda: told.keys == ["a"])
    await asyncio.wait_for(keeper.close(), 10)


async def test_nothing_is_renewed_beyond_the_time_its_work_may_take(
    keeper: LeaseKeeper[str], renewals: Renewals
) -> None:
    told = Told()
    now = time.monotonic()
    keeper.hold(["a"], claimed_at=now, until=now + LEASE_SECONDS, on_lost=told)
    await eventually(lambda: told.keys == ["a"])
    assert 1 <= len(renewals.calls) <= 2


async def test_closing_ends_the_thread_and_tells_nobody(engine: AsyncEngine, renewals: Renewals) -> None:
    told = Told()
    keeper: LeaseKeeper[str] = LeaseKeeper(engine, renewals, lease_seconds=60, name="closing keeper")
    keeper.hold(["a"], claimed_at=time.monotonic(), on_lost=told)
    await eventually(lambda: _is_running("closing keeper"))
    began = time.monotonic()
    await keeper.close()
    assert time.monotonic() - began < 5
    assert not _is_running("closing keeper")
    assert told.keys == []


def _is_running(name: str) -> bool:
    return any(thread.name == name for thread in threading.enumerate())


def _hang(connection: Connection) -> None:
    """An await inside the step that never ends, as on a dead line."""
    from sqlalchemy.util import await_only

    never: Callable[[], object] = asyncio.Event().wait
    await_only(never())  # type: ignore[arg-type]
