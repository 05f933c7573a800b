"""What becomes of a slot that comes while a run before it has not ended, by the policy of its schedule."""

import asyncio
from typing import Any

import pytest

from jobs.schedule.declaring.run_policy import OverlapPolicy
from jobs.schedule.storing.action import ActionKind
from tests.support.schedules import NAME, MakeEngine, StoredSchedules, at, catalog_of, crowd, schedule
from tests.support.telemetry import recorded_telemetry

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])


def queueing(name: str = NAME, **fields: Any) -> Any:
    return schedule(name, overlap=OverlapPolicy.QUEUE, **fields)


async def minute(scheduled: StoredSchedules, *hosts: Any) -> None:
    """A minute passes, and the hosts look."""
    scheduled.advance(60)
    await asyncio.gather(*(host.tick() for host in hosts))


async def test_a_slot_that_comes_while_a_run_is_queued_or_runs_is_left_out_and_recorded(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule())
    await minute(scheduled, host)
    await minute(scheduled, host)
    await scheduled.start_due()
    await minute(scheduled, host)
    await scheduled.end()
    await minute(scheduled, host)
    assert await scheduled.slots() == [60, 240]
    state = await scheduled.state()
    assert (state.fired, state.overlapped, state.misfired, state.next_fire) == (2, 2, 0, at(300))
    left_out = [each for each in await scheduled.actions() if each.kind is ActionKind.OVERLAPPED]
    assert [each.detail for each in left_out] == [
        f"slot {at(seconds)}: the run before it has not ended" for seconds in (120, 180)
    ]
    assert {each.actor for each in left_out} == {"host-1"}


@pytest.mark.parametrize("ending", ["failed", "cancelled", "deleted"])
async def test_a_run_that_ended_in_any_way_frees_its_schedule(
    scheduled: StoredSchedules, ending: str
) -> None:
    host = await scheduled.hosted(schedule())
    await minute(scheduled, host)
    (run,) = await scheduled.runs()
    match ending:
        case "failed":
            await scheduled.finish("bank_away")
        case "cancelled":
            await scheduled.step(scheduled.jobs.store.cancel, "selfmanaged.schedules", run.job_id)
        case _:
            await scheduled.forget_jobs()
    await minute(scheduled, host)
    assert await scheduled.slots() == [60, 120]


async def test_a_run_whose_executor_died_frees_its_schedule_once_it_is_recovered(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule())
    await minute(scheduled, host)
    await scheduled.start_due()
    await minute(scheduled, host)
    scheduled.advance(3600)  # the lease expires
    await minute(scheduled, host)
    assert await scheduled.slots() == [60]
    await scheduled.step(scheduled.jobs.store.recover_expired, requeue=lambda _: False)
    await minute(scheduled, host)
    assert await scheduled.slots() == [60, 3840]
    (crashed, _) = await scheduled.runs()
    assert (crashed.outcome, crashed.code) == ("interrupted", "lease_expired")


async def test_a_run_that_is_tried_again_after_a_crash_has_not_ended(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    await minute(scheduled, host)
    await scheduled.start_due()
    scheduled.advance(3600)
    await scheduled.step(scheduled.jobs.store.recover_expired)
    await minute(scheduled, host)
    assert await scheduled.slots() == [60]
    await scheduled.finish()
    await minute(scheduled, host)
    assert await scheduled.slots() == [60, 3780]


async def test_one_slot_waits_and_fires_after_the_end_of_the_run(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(queueing())
    await minute(scheduled, host)
    await scheduled.start_due()
    await minute(scheduled, host)
    state = await scheduled.state()
    assert (state.waiting, state.next_fire, state.fired, state.overlapped) == (at(120), at(180), 1, 0)
    assert await scheduled.slots() == [60]
    await minute(scheduled, host)  # a second one finds no room
    scheduled.advance(10)
    await scheduled.end()
    assert await host.tick() == 1
    assert await scheduled.slots() == [60, 120]
    state = await scheduled.state()
    assert (state.waiting, state.next_fire, state.last_nominal) == (None, at(240), at(180))
    assert (state.fired, state.overlapped) == (2, 1)
    assert [run.nominal for run in await scheduled.runs() if run.outcome is None] == [at(120)]


async def test_a_run_that_ends_makes_room_for_the_slot_after_the_one_that_waits(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(queueing())
    await minute(scheduled, host)
    await scheduled.start_due()
    await minute(scheduled, host)
    await scheduled.end()  # and before anybody has looked, the next slot comes
    await minute(scheduled, host)
    assert await scheduled.slots() == [60, 120]
    assert (await scheduled.state()).waiting == at(180)
    assert (await scheduled.state()).overlapped == 0


async def test_a_slot_never_overtakes_the_one_that_waits(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(queueing())
    await minute(scheduled, host)
    await scheduled.start_due()
    await minute(scheduled, host)
    scheduled.advance(60)
    await scheduled.end()
    assert await host._fire_due(0.0) == 0  # the run has ended since the host looked for what waits
    assert await scheduled.slots() == [60]
    assert (await scheduled.state()).next_fire == at(180)
    await host.tick()
    assert await scheduled.slots() == [60, 120]
    assert (await scheduled.state()).waiting == at(180)


async def test_runs_of_a_schedule_that_allows_it_are_side_by_side(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule(overlap=OverlapPolicy.ALLOW))
    for _ in range(3):
        await minute(scheduled, host)
        await scheduled.start_due()
    assert await scheduled.slots() == [60, 120, 180]
    assert (await scheduled.state()).fired == 3
    assert {(await scheduled.job(run)).state.value for run in await scheduled.runs()} == {"running"}


@pytest.mark.parametrize("overlap", OverlapPolicy)
async def test_a_run_longer_than_its_period_on_two_hosts(
    scheduled: StoredSchedules, another_engine: MakeEngine, overlap: OverlapPolicy
) -> None:
    hosts = [
        scheduled.host(
            schedule(overlap=overlap),
            owner=f"host-{number}",
            engine=await another_engine(),
            take_over_seconds=0.001,
        )
        for number in (1, 2)
    ]
    await asyncio.gather(*(host.reconcile() for host in hosts))
    for number in range(6):
        await minute(scheduled, *hosts)
        if number % 3 == 0:
            await scheduled.start_due()  # each run takes two and a half minutes
        if number % 3 == 2:
            scheduled.advance(30)
            await scheduled.end()
            await asyncio.gather(*(host.tick() for host in hosts))
            scheduled.advance(-30)
    runs = await scheduled.slots()
    assert len(runs) == len(set(runs))
    state = await scheduled.state()
    decided = state.fired + state.overlapped + (state.waiting is not None)
    assert (decided, state.misfired, state.last_nominal) == (6, 0, at(360))
    match overlap:
        case OverlapPolicy.SKIP:
            assert runs == [60, 240]
        case OverlapPolicy.QUEUE:
            assert runs == [60, 120, 240]
        case OverlapPolicy.ALLOW:
            assert runs == [60, 120, 180, 240, 300, 360]


async def test_two_hosts_release_a_waiting_slot_once(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    hosts = [
        scheduled.host(
            queueing(), owner=f"host-{number}", engine=await another_engine(), take_over_seconds=0.001
        )
        for number in (1, 2)
    ]
    await hosts[0].reconcile()
    await minute(scheduled, *hosts)
    await minute(scheduled, *hosts)
    await scheduled.finish()
    scheduled.advance(5)
    assert sum(await asyncio.gather(*(host.tick() for host in hosts))) == 1
    assert await scheduled.slots() == [60, 120]
    assert (await scheduled.state()).fired == 2


async def test_a_waiting_slot_of_a_schedule_that_the_leader_does_not_declare_is_released(
    scheduled: StoredSchedules,
) -> None:
    ours = await scheduled.hosted(queueing(), take_over_seconds=5.0)
    await minute(scheduled, ours)
    await minute(scheduled, ours)
    await ours._leadership.stand_down()
    older = scheduled.host(schedule("another"), owner="host-2")
    await scheduled.finish()
    await older.tick()  # leads from now on
    assert await scheduled.slots() == [60]
    scheduled.advance(5)
    assert await ours.tick() == 1
    assert await scheduled.slots() == [60, 120]


@ON_ONE_DATABASE
async def test_a_waiting_slot_is_released_behind_any_number_that_still_wait(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(queueing("a"), *(queueing(f"b{number:03d}") for number in range(220)))
    await minute(scheduled, host)
    scheduled.advance(60)
    await host.tick()
    assert (await scheduled.state("b219")).waiting == at(120)
    last = (await scheduled.runs("b219"))[0]
    await scheduled.step(scheduled.jobs.store.cancel, "selfmanaged.schedules", last.job_id)
    assert await host.tick() == 1
    assert await scheduled.slots("b219") == [60, 120]


@ON_ONE_DATABASE
async def test_a_schedule_that_does_not_queue_any_more_still_fires_the_slot_that_waits_first(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(queueing())
    await minute(scheduled, host)
    await minute(scheduled, host)
    await host._leadership.stand_down()
    host = await scheduled.hosted(schedule(overlap=OverlapPolicy.SKIP), owner="host-2")
    await scheduled.finish()
    await minute(scheduled, host)
    assert await scheduled.slots() == [60, 120]
    assert await scheduled.told() == ["overlapped"]


@ON_ONE_DATABASE
async def test_slots_that_wait_or_are_left_out_are_counted_once(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(queueing())
    await minute(scheduled, host)
    with recorded_telemetry() as recording:
        await minute(scheduled, host)
        await host.tick()
        await minute(scheduled, host)
        await scheduled.finish()
        await host.tick()
        points = {point.attributes["outcome"]: point.value for point in recording.points()}
    assert points == {"waiting": 1, "overlapped": 1, "fired": 1}


@ON_ONE_DATABASE
async def test_an_idle_crowd_is_not_looked_through_for_waiting_slots(scheduled: StoredSchedules) -> None:
    await scheduled.fill(300, waiting=[299])
    host = scheduled.host(crowd(300, overlap=OverlapPolicy.QUEUE))
    assert await host.tick() == 1
    assert await scheduled.slots("crowd.00299") == [0]


def test_skipping_is_what_a_declaration_says_unless_told_otherwise() -> None:
    assert catalog_of(schedule())[NAME].declaration.overlap is OverlapPolicy.SKIP
