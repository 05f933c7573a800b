"""Where one transaction writes at a time, handlers take turns, with a pause for others now and then."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.execution.write_turns import WriteTurns


class Time:
    """A clock that sleeping moves, and how long was slept."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr("jobs.execution.write_turns.time", SimpleNamespace(monotonic=time.monotonic))
    slept = SimpleNamespace(Semaphore=asyncio.Semaphore, sleep=time.sleep, Future=asyncio.Future)
    monkeypatch.setattr("jobs.execution.write_turns.asyncio", slept)
    return time


def an_attempt() -> Any:
    return SimpleNamespace(over=asyncio.get_running_loop().create_future())


async def end(attempt: Any) -> None:
    attempt.over.set_result(None)
    await asyncio.sleep(0)


async def test_a_turn_ends_with_its_attempt() -> None:
    turns = WriteTurns(lease_seconds=60)
    first, second = an_attempt(), an_attempt()
    await turns.take(first)
    waiting = asyncio.create_task(turns.take(second))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.over.set_result(None)
    await asyncio.wait_for(waiting, 5)


async def test_who_leaves_the_queue_holds_up_nobody() -> None:
    turns = WriteTurns(lease_seconds=60)
    first, second, third = an_attempt(), an_attempt(), an_attempt()
    await turns.take(first)
    leaving, waiting = (asyncio.create_task(turns.take(each)) for each in (second, third))
    await asyncio.sleep(0)
    leaving.cancel()
    await end(first)
    await asyncio.wait_for(waiting, 5)


async def test_turns_that_follow_at_once_are_interrupted_before_a_tenth_of_the_lease_has_passed_twice(
    time: Time,
) -> None:
    turns = WriteTurns(lease_seconds=10)
    pauses = []
    for _ in range(9):
        attempt = an_attempt()
        await turns.take(attempt)
        pauses.append(len(time.slept))
        time.now += 0.4
        await end(attempt)
    assert pauses == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert set(time.slept) == {0.15}


async def test_no_pause_is_made_when_there_was_one(time: Time) -> None:
    turns = WriteTurns(lease_seconds=10)
    for _ in range(5):
        attempt = an_attempt()
        await turns.take(attempt)
        time.now += 5
        await end(attempt)
        time.now += 0.2
    assert time.slept == []
