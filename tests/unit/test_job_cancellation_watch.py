"""Running attempts are asked about soon enough, and short ones not at all."""

import itertools
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import ExecutionStatus, StopReason
from jobs.execution.cancellation_watch import CancellationWatch

POLL_SECONDS = 1.0


class Time:
    """A clock that a loop moves by sleeping, until `end`."""

    def __init__(self, end: float) -> None:
        self.now = 1000.0
        self.end = self.now + end

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.end


class Run:
    """A running attempt, and why it was asked to end."""

    def __init__(self, begun_at: float) -> None:
        self.begun_at = begun_at
        self.stop_reason: StopReason | None = None

    def ask_to_stop(self, reason: StopReason) -> None:
        self.stop_reason = reason


class Store:
    """Says the same of all attempts, and remembers when it was asked about which."""

    def __init__(self, time: Time, status: ExecutionStatus) -> None:
        self.time = time
        self.status = status
        self.asked: list[tuple[float, Collection[Any]]] = []

    def execution_status_many(self, _connection: Any, references: Collection[Any]) -> dict[Any, Any]:
        self.asked.append((self.time.now, references))
        return dict.fromkeys(references, self.status)


async def watched(monkeypatch: pytest.MonkeyPatch, time: Time, runs: dict[Any, Run], store: Store) -> None:
    async def step(_engine: Any, work: Callable[[Any], Any]) -> Any:
        return work(None)

    monkeypatch.setattr("jobs.execution.cancellation_watch.loop_step", step)
    monkeypatch.setattr("jobs.execution.cancellation_watch.time", SimpleNamespace(monotonic=time.monotonic))
    watch = CancellationWatch(None, store, runs, poll_seconds=POLL_SECONDS, stop=time)  # type: ignore[arg-type]
    await watch.run()


@pytest.mark.parametrize("phase", [number / 20 for number in range(21)])
async def test_whatever_is_asked_of_an_attempt_is_heard_within_the_time(
    monkeypatch: pytest.MonkeyPatch, phase: float
) -> None:
    """Also when it is asked at the moment at which the attempt begins."""
    time = Time(end=5)
    store = Store(time, ExecutionStatus.ACTIVE)
    run = Run(begun_at=time.now + phase)
    await watched(monkeypatch, time, {"a": run}, store)
    moments = [run.begun_at, *(moment for moment, references in store.asked if "a" in references)]
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    assert len(gaps) >= 4
    assert max(gaps) <= POLL_SECONDS + 1e-9


async def test_a_short_attempt_is_never_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(end=5)
    store = Store(time, ExecutionStatus.ACTIVE)

    class Latest(dict[Any, Run]):
        """Of each moment only attempts that began a little before."""

        def items(self) -> Any:
            return [("a", Run(begun_at=time.now - POLL_SECONDS / 4))]

    await watched(monkeypatch, time, Latest(), store)
    assert store.asked == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (ExecutionStatus.ACTIVE, None),
        (ExecutionStatus.CANCEL_REQUESTED, StopReason.CANCEL_REQUESTED),
        (ExecutionStatus.ENDED, StopReason.LEASE_LOST),
    ],
)
async def test_what_is_heard_is_told_once(
    monkeypatch: pytest.MonkeyPatch, status: ExecutionStatus, reason: StopReason | None
) -> None:
    time = Time(end=5)
    store = Store(time, status)
    run = Run(begun_at=0)
    await watched(monkeypatch, time, {"a": run}, store)
    assert run.stop_reason is reason
    assert (len(store.asked) == 1) is (reason is not None)


async def test_many_attempts_are_asked_about_a_thousand_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(end=1)
    store = Store(time, ExecutionStatus.ACTIVE)
    await watched(monkeypatch, time, {number: Run(0) for number in range(2500)}, store)
    assert [len(references) for _, references in store.asked] == [1000, 1000, 500]
