"""A tick takes the same number of statements for any number of schedules, and next to no time for none."""

import statistics
import time
from typing import Any

import pytest
from sqlalchemy import event, text

from jobs.schedule.declaring.run_policy import OverlapPolicy
from jobs.schedule.hosting.host import ScheduleHost
from tests.support.schedules import StoredSchedules, crowd, schedule
from tests.support.statements import recorded_statements

pytest_plugins = ("tests.support.schedules_fixture",)

COUNTS = (1, 50, 99)
"""Up to one page; a full page is followed by a look for the next."""


async def statements_of(scheduled: StoredSchedules, host: ScheduleHost, decided: int) -> int:
    """How many statements a tick takes that decides so many slots."""
    with recorded_statements(scheduled.engine) as statements:
        assert await host.tick() == decided
    return len(statements)


async def test_a_tick_takes_as_many_statements_for_a_page_as_for_one(scheduled: StoredSchedules) -> None:
    numbers = set()
    for count in COUNTS:
        await scheduled.clear()
        await scheduled.fill(200, due=range(count))
        host = scheduled.host(crowd(200), beat_seconds=30.0)
        scheduled.advance(-1)
        await host.tick()  # leads, and has told of itself
        scheduled.advance(1)
        numbers.add(await statements_of(scheduled, host, count))
    assert len(numbers) == 1, numbers
    assert numbers.pop() <= 12


@pytest.mark.parametrize("overlap", OverlapPolicy)
async def test_missed_and_overlapping_slots_take_no_more_of_them(
    scheduled: StoredSchedules, overlap: OverlapPolicy
) -> None:
    numbers = set()
    for count in COUNTS:
        await scheduled.clear()
        host = scheduled.host(crowd(count, overlap=overlap), beat_seconds=30.0)
        await host.reconcile()
        scheduled.advance(60)
        await host.tick()
        scheduled.advance(600)  # nine are missed while each first run goes on
        numbers.add(await statements_of(scheduled, host, count))
    assert len(numbers) == 1, numbers


async def test_releasing_and_settling_take_no_more_of_them(scheduled: StoredSchedules) -> None:
    numbers = set()
    for count in COUNTS:
        await scheduled.clear()
        host = scheduled.host(crowd(count, overlap=OverlapPolicy.QUEUE), beat_seconds=30.0)
        await host.reconcile()
        for _ in range(2):
            scheduled.advance(60)
            await host.tick()
        await scheduled.finish()
        numbers.add(await statements_of(scheduled, host, count))
        assert (await scheduled.state("crowd.00000")).last_success == scheduled.now()
    assert len(numbers) == 1, numbers


async def test_a_tick_with_nothing_to_do_takes_five_statements(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule(), beat_seconds=30.0)
    second = scheduled.host(schedule(), owner="host-2", beat_seconds=30.0)
    await host.tick()
    await second.tick()
    assert await statements_of(scheduled, host, 0) == 5
    assert await statements_of(scheduled, second, 0) == 5


async def test_an_idle_tick_among_ten_thousand_schedules_takes_less_than_ten_milliseconds(
    scheduled: StoredSchedules,
) -> None:
    await scheduled.fill(10_000)
    host = scheduled.host(crowd(1), beat_seconds=30.0)
    clock = DatabaseTime()
    event.listen(scheduled.engine.sync_engine, "before_cursor_execute", clock.begin)
    event.listen(scheduled.engine.sync_engine, "after_cursor_execute", clock.end)
    ticks, trivial = [], []
    for _ in range(15):
        clock.seconds = 0.0
        assert await host.tick() == 0
        ticks.append(clock.seconds)
        clock.seconds = 0.0
        await scheduled.step(lambda connection: connection.execute(text("SELECT 1")))
        trivial.append(clock.seconds)
    # On a busy machine everything takes longer, a statement that does nothing too.
    bound = max(0.010, 5 * 4 * statistics.median(trivial))
    assert statistics.median(ticks) < bound, (ticks, trivial)


class DatabaseTime:
    """How long the statements of an engine take, together."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def begin(self, *_: Any) -> None:
        self._began = time.perf_counter()

    def end(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self._began
