"""What becomes of the slots that came while no host was there, by the policy of their schedule."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.storing.action import ActionKind
from jobs.schedule.storing.cause import Cause
from tests.support.schedules import MakeEngine, StoredSchedules, at, schedule
from tests.support.statements import recorded_statements
from tests.support.telemetry import recorded_telemetry

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
DAY = 86_400


def catching_up(**fields: Any) -> Any:
    return schedule(misfire=MisfirePolicy.CATCH_UP, **fields)


async def causes(scheduled: StoredSchedules) -> list[tuple[float, str]]:
    """Slots, in minutes, and causes of the runs, in the order of the slots."""
    runs = await scheduled.runs()
    return [((run.nominal.ticks - at(0).ticks) / 600_000_000, run.cause.value) for run in runs]


async def dropped(scheduled: StoredSchedules) -> list[str | None]:
    """What is recorded of slots that nobody makes up for."""
    return [each.detail for each in await scheduled.actions() if each.kind is ActionKind.DROPPED]


async def test_the_latest_slot_runs_for_all_that_were_missed(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(10 * 60 + 30)
    assert (await host.tick(), await host.tick()) == (1, 0)
    assert await causes(scheduled) == [(10, "schedule")]
    assert await dropped(scheduled) == [f"9 slots missed, from {at(60)} to {at(540)}"]
    state = await scheduled.state()
    assert (state.fired, state.misfired, state.next_fire, state.last_nominal) == (1, 9, at(660), at(600))


async def test_the_latest_slot_says_that_it_was_missed_itself(scheduled: StoredSchedules) -> None:
    hourly = schedule(cron="0 * * * *")
    host = await scheduled.hosted(hourly)
    scheduled.advance(3600 + 61)
    await host.tick()
    (run,) = await scheduled.runs()
    assert (run.nominal, run.cause) == (at(3600), Cause.MISFIRE)
    assert await dropped(scheduled) == []


async def test_a_slot_within_its_grace_is_not_missed(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(
        schedule(cron="0 * * * *", misfire_grace=timedelta(minutes=5), misfire=MisfirePolicy.SKIP)
    )
    scheduled.advance(3600 + 300)
    await host.tick()
    (run,) = await scheduled.runs()
    assert (run.nominal, run.cause) == (at(3600), Cause.SCHEDULE)


async def test_skipping_leaves_out_what_was_missed_and_records_it(scheduled: StoredSchedules) -> None:
    hourly = schedule(cron="0 * * * *", misfire=MisfirePolicy.SKIP)
    host = await scheduled.hosted(hourly)
    scheduled.advance(5 * 3600 + 600)
    assert await host.tick() == 1
    assert await scheduled.runs() == []
    assert await dropped(scheduled) == [f"5 slots missed, from {at(3600)} to {at(5 * 3600)}"]
    state = await scheduled.state()
    assert (state.fired, state.misfired, state.next_fire) == (0, 5, at(6 * 3600))
    scheduled.advance(3000)
    await host.tick()
    assert await scheduled.slots() == [6 * 3600]


async def test_catching_up_runs_every_slot_in_its_turn_with_its_own_time(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(catching_up())
    scheduled.advance(5 * 60 + 30)
    order = []
    for _ in range(5):
        assert await host.tick() == 1
        assert await host.tick() == 0  # until the run has ended
        order += await scheduled.finish()
    assert await host.tick() == 0
    expected = [(minute, "misfire") for minute in range(1, 5)]
    assert await causes(scheduled) == [*expected, (5, "schedule")]
    assert order == [run.job_id for run in await scheduled.runs()]
    state = await scheduled.state()
    assert (state.fired, state.misfired, state.overlapped, state.next_fire) == (5, 0, 0, at(360))
    assert await scheduled.told() == []


@ON_ONE_DATABASE
@pytest.mark.parametrize("overlap", OverlapPolicy)
async def test_no_slot_is_left_out_of_catching_up_by_an_overlap(
    scheduled: StoredSchedules, overlap: OverlapPolicy
) -> None:
    host = await scheduled.hosted(catching_up(overlap=overlap))
    scheduled.advance(6 * 60 + 59)
    ticks = 0
    while (await scheduled.state()).next_fire != at(7 * 60):
        await host.tick()
        if overlap is not OverlapPolicy.ALLOW:
            await scheduled.finish()
        ticks += 1
    assert ticks == 6
    assert await scheduled.slots() == [60, 120, 180, 240, 300, 360]
    assert await scheduled.told() == []


async def test_two_hosts_catch_up_together_without_running_a_slot_twice(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    declared = catching_up(overlap=OverlapPolicy.ALLOW)
    hosts = [
        scheduled.host(
            declared, owner=f"host-{number}", engine=await another_engine(), take_over_seconds=0.001
        )
        for number in (1, 2)
    ]
    await hosts[0].reconcile()
    scheduled.advance(8 * 60)
    for _ in range(8):
        await asyncio.gather(*(host.tick() for host in hosts))
    assert await scheduled.slots() == [60 * minute for minute in range(1, 9)]
    assert (await scheduled.state()).fired == 8


async def test_catching_up_is_bounded_by_number_and_says_what_it_drops(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(catching_up(catch_up_limit=3))
    scheduled.advance(10 * 60)
    for _ in range(3):
        assert await host.tick() == 1
        await scheduled.finish()
    assert await host.tick() == 0
    assert await scheduled.slots() == [480, 540, 600]
    assert await dropped(scheduled) == [f"7 slots missed, from {at(60)} to {at(420)}"]
    assert (await scheduled.state()).misfired == 7


async def test_catching_up_is_bounded_by_age_and_says_what_it_drops(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(catching_up(catch_up_age=timedelta(minutes=4)))
    scheduled.advance(10 * 60 + 30)
    for _ in range(4):
        assert await host.tick() == 1
        await scheduled.finish()
    assert await host.tick() == 0
    assert await scheduled.slots() == [420, 480, 540, 600]
    assert await dropped(scheduled) == [f"6 slots missed, from {at(60)} to {at(360)}"]


async def test_catching_up_drops_slots_that_grew_too_old_behind_a_long_run(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(catching_up(catch_up_age=timedelta(minutes=5)))
    scheduled.advance(5 * 60)
    await host.tick()
    await scheduled.start_due()
    scheduled.advance(4 * 60 + 30)
    assert await host.tick() == 0
    await scheduled.end()
    await host.tick()
    assert await scheduled.slots() == [60, 300]
    assert await dropped(scheduled) == [f"3 slots missed, from {at(120)} to {at(240)}"]


@pytest.mark.parametrize("policy", MisfirePolicy)
async def test_a_month_of_minutes_is_made_up_for_in_bounded_steps(
    scheduled: StoredSchedules, policy: MisfirePolicy
) -> None:
    host = await scheduled.hosted(schedule(misfire=policy, catch_up_limit=5))
    scheduled.advance(30 * DAY + 30)
    with recorded_statements(scheduled.engine) as statements:
        ticks = 0
        while await host.tick():
            ticks += 1
            await scheduled.finish()
    assert ticks == (5 if policy is MisfirePolicy.CATCH_UP else 1)
    assert len(statements) < 30 * (ticks + 1)
    newest = 30 * DAY
    expected = [newest - 60 * back for back in range(4, -1, -1)]
    assert await scheduled.slots() == (expected if policy is MisfirePolicy.CATCH_UP else [newest])
    last = expected[0] - 60 if policy is MisfirePolicy.CATCH_UP else newest - 60
    assert await dropped(scheduled) == [f"1000 or more slots missed, from {at(60)} to {at(last)}"]
    assert (await scheduled.state()).next_fire == at(newest + 60)


@ON_ONE_DATABASE
async def test_the_event_loop_goes_on_while_a_month_of_minutes_is_planned(scheduled: StoredSchedules) -> None:
    names = [f"a{number}" for number in range(5)]
    host = await scheduled.hosted(*(schedule(name) for name in names))
    scheduled.advance(30 * DAY)
    rounds: list[float] = []
    plan, planned = host._planned, [0.0, 0.0]

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.001)
            rounds.append(time.monotonic())

    def timed(*arguments: Any) -> Any:
        planned[0] = time.monotonic()
        firings = plan(*arguments)
        planned[1] = time.monotonic()
        return firings

    host._planned = timed  # type: ignore[method-assign]
    watching = asyncio.create_task(watch())
    assert await host.tick() == 5
    watching.cancel()
    meanwhile = [each for each in rounds if planned[0] < each < planned[1]]
    assert len(meanwhile) > 10, (len(meanwhile), planned)


@ON_ONE_DATABASE
async def test_one_schedule_with_much_to_make_up_for_holds_up_no_other(scheduled: StoredSchedules) -> None:
    crowd = [
        catching_up(name=f"a{number:03d}", overlap=OverlapPolicy.ALLOW, catch_up_limit=50)
        for number in range(100)
    ]
    host = await scheduled.hosted(*crowd, schedule("b"))
    scheduled.advance(20 * 60)
    assert await host.tick() == 101
    assert [(await scheduled.state(name)).fired for name in ("a000", "a099", "b")] == [1, 1, 1]


@ON_ONE_DATABASE
async def test_missed_slots_are_counted(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(10 * 60)
    with recorded_telemetry() as recording:
        await host.tick()
        points = {point.attributes["outcome"]: point.value for point in recording.points()}
    assert points == {"missed": 9, "fired": 1}
