"""Ended attempts are settled in batches; an outage is waited for, and nobody waits for ever."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from uuid import uuid4

import pytest

from jobs import AttemptReference, Settled, Settlement
from jobs.execution.settler import Settler
from tests.support.waiting import eventually


def settlement(job_id: str) -> Settlement:
    return Settlement.succeed(AttemptReference(bytes(32), job_id, 1, uuid4()))


class Keeper:
    """Holds all leases but those that are lost."""

    def __init__(self) -> None:
        self.lost: set[AttemptReference] = set()
        self.gone: list[str] = []

    def still_held(self, references: Iterable[AttemptReference]) -> frozenset[AttemptReference]:
        return frozenset(references) - self.lost

    def let_go(self, references: Iterable[AttemptReference]) -> None:
        self.gone += [reference.job_id for reference in references]


class Store:
    """Settles all at once; fails for as long as there are errors to raise, and for those it cannot write."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.errors: list[Exception] = []
        self.unwritable: Collection[str] = ()
        self.open = asyncio.Event()
        self.open.set()

    def settle_many(self, _connection: Any, settlements: Sequence[Settlement]) -> list[Settled]:
        ids = [each.reference.job_id for each in settlements]
        self.batches.append(ids)
        if self.errors:
            raise self.errors.pop(0)
        if set(ids) & set(self.unwritable):
            raise ValueError("cannot be written")
        return [Settled.SUCCEEDED] * len(ids)


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def settler(store: Store, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> Settler:
    async def step(_engine: Any, work: Callable[[Any], Any]) -> Any:
        await asyncio.sleep(0)
        await store.open.wait()
        return work(None)

    monkeypatch.setattr("jobs.execution.settler.loop_step", step)
    monkeypatch.setattr("uow.backoff.Backoff.delay_seconds", lambda *_: 0.0)
    return Settler(None, store, keeper)  # type: ignore[arg-type]


async def test_what_ends_while_a_batch_is_written_is_the_next_batch(settler: Settler, store: Store) -> None:
    store.open.clear()
    first = settler.settle(settlement("a"))
    await asyncio.sleep(0)
    others = [settler.settle(settlement(name)) for name in "bcd"]
    assert settler.backlog == 3
    store.open.set()
    assert await asyncio.gather(first, *others) == [Settled.SUCCEEDED] * 4
    assert store.batches == [["a"], ["b", "c", "d"]]
    await settler.idle()


async def test_no_batch_is_larger_than_a_step_takes(settler: Settler, store: Store) -> None:
    await asyncio.gather(*(settler.settle(settlement(str(number))) for number in range(2500)))
    assert [len(batch) for batch in store.batches] == [1000, 1000, 500]


async def test_an_outage_is_waited_for(settler: Settler, store: Store, keeper: Keeper) -> None:
    store.errors = [ConnectionRefusedError(), TimeoutError()]
    assert await settler.settle(settlement("a")) is Settled.SUCCEEDED
    assert (store.batches, keeper.gone) == ([["a"]] * 3, ["a"])


async def test_an_outage_is_waited_for_no_longer_than_the_lease(
    settler: Settler, store: Store, keeper: Keeper
) -> None:
    lost, kept = settlement("lost"), settlement("kept")
    store.errors = [ConnectionRefusedError()]
    keeper.lost = {lost.reference}
    assert await asyncio.gather(settler.settle(lost), settler.settle(kept)) == [None, Settled.SUCCEEDED]
    assert store.batches == [["kept"]] * 2
    assert sorted(keeper.gone) == ["kept", "lost"]


async def test_one_that_cannot_be_written_holds_up_no_other(
    settler: Settler, store: Store, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    store.unwritable = {"b"}
    answers = await asyncio.gather(*(settler.settle(settlement(name)) for name in "abc"))
    assert answers == [Settled.SUCCEEDED, None, Settled.SUCCEEDED]
    assert keeper.gone == ["a", "b", "c"]
    assert "attempt 1 of job b could not be settled and is left to its lease" in caplog.text


async def test_when_its_task_is_cancelled_nobody_waits_for_ever(
    settler: Settler, store: Store, keeper: Keeper
) -> None:
    """As at the end of an event loop, while attempts that are cancelled too still want to be settled."""
    store.open.clear()
    first = settler.settle(settlement("a"))
    await asyncio.sleep(0)
    (working,) = [task for task in asyncio.all_tasks() if task.get_name() == "settling of jobs"]
    working.cancel()
    second = settler.settle(settlement("b"))
    store.open.set()
    assert await asyncio.wait_for(first, 5) is None
    assert await asyncio.wait_for(second, 5) is Settled.SUCCEEDED
    await eventually(lambda: keeper.gone == ["a", "b"])
    await asyncio.wait_for(settler.idle(), 5)


async def test_whoever_stops_waiting_disturbs_nobody(settler: Settler, store: Store) -> None:
    store.open.clear()
    first, second = settler.settle(settlement("a")), settler.settle(settlement("b"))
    first.cancel()
    store.open.set()
    assert await second is Settled.SUCCEEDED
    assert store.batches == [["a", "b"]]
