"""A slot becomes a job once, whoever looks for it, how often, and by whatever clock."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs.schedule.declaring.run_policy import OverlapPolicy
from jobs.schedule.hosting.host import ScheduleHost
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.due import DueSchedule
from jobs.schedule.storing.firing import Firing, FiringOutcome
from jobs.schedule.storing.ground import SCOPE
from jobs.schedule.storing.run_identity import run_id_of
from jobs.schedule.storing.slot_plan import SlotPlan
from tests.support.schedules import NAME, MakeEngine, StoredSchedules, at, schedule, seconds_of
from uow.ticks import UtcInstant

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])


async def firing_of(scheduled: StoredSchedules) -> Firing:
    """The due slot as a host would fire it."""
    _, (due,) = await scheduled.step(scheduled.store.find_due)
    plan = SlotPlan(
        nominal=due.slot, cause=Cause.SCHEDULE, handled=due.slot, next_fire=UtcInstant(due.slot.ticks + 10**9)
    )
    return Firing(
        due=due, plan=plan, overlap=OverlapPolicy.ALLOW, queue="default", max_attempts=3, priority=0
    )


async def side_by_side(
    scheduled: StoredSchedules, another_engine: MakeEngine, count: int
) -> list[ScheduleHost]:
    """So many hosts, each with an engine of its own, of which each fires what it finds."""
    return [
        scheduled.host(
            schedule(),
            schedule("mail.digest"),
            owner=f"host-{number}",
            engine=await another_engine(),
            take_over_seconds=0.001,
        )
        for number in range(1, count + 1)
    ]


async def test_a_slot_becomes_a_job_at_its_time_and_the_schedule_moves_on(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    assert await host.tick() == 0
    scheduled.advance(59.999)
    assert await host.tick() == 0
    scheduled.advance(0.001)
    assert (await host.tick(), await host.tick()) == (1, 0)
    state = await scheduled.state()
    assert (state.next_fire, state.last_nominal, state.fired, state.host) == (at(120), at(60), 1, "host-1")
    assert scheduled.woken == 1
    assert await scheduled.slots() == [60]


async def test_a_run_carries_its_slot_its_cause_and_its_identity_to_its_job(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule(queue="night", max_attempts=7, priority=-5))
    scheduled.advance(63)
    await host.tick()
    (run,) = await scheduled.runs()
    assert (run.nominal, run.cause, run.staged) == (at(60), Cause.SCHEDULE, at(63))
    assert (run.outcome, run.attempt, run.started, run.ended) == (None, None, None, None)
    assert run.job_id == f"{NAME}@2026-01-01T00:01:00.0000000Z"
    assert run.run_id == run_id_of(run.job_id)
    job = await scheduled.job(run)
    assert (job.handler, job.handler_version, job.queue) == (f"schedule.{NAME}", 1, "night")
    assert (job.max_attempts, job.priority, job.initial_not_before) == (7, -5, None)
    assert job.arguments == (
        f'{{"cause":"schedule","nominal":"2026-01-01T00:01:00.0000000Z","schedule":"{NAME}"}}'
    )


@pytest.mark.parametrize("hosts", [2, 4])
async def test_hosts_that_tick_at_the_same_moment_fire_each_slot_once(
    scheduled: StoredSchedules, another_engine: MakeEngine, hosts: int
) -> None:
    together = await side_by_side(scheduled, another_engine, hosts)
    await asyncio.gather(*(host.reconcile() for host in together))
    for _ in range(5):
        scheduled.advance(60)
        decided = await asyncio.gather(*(host.tick() for host in together))
        assert sum(decided) == 2
        await scheduled.finish()
    for name in (NAME, "mail.digest"):
        assert await scheduled.slots(name) == [60, 120, 180, 240, 300]
        state = await scheduled.state(name)
        assert (state.fired, state.misfired, state.overlapped, state.fencing_number) == (5, 0, 0, 6)


async def test_a_restarted_host_fires_no_slot_again_and_leaves_none_out(scheduled: StoredSchedules) -> None:
    for number in range(5):  # within one minute
        host = await scheduled.hosted(schedule(), owner=f"host-{number}")
        scheduled.advance(10 if number else 25)
        await host.tick()
        await host._leadership.stand_down()
    await scheduled.finish()
    scheduled.advance(55)  # 120 s after the start
    host = await scheduled.hosted(schedule(), owner="host-5")
    assert await host.tick() == 1
    assert await scheduled.slots() == [60, 120]


@pytest.mark.parametrize("minutes", [-3, 3])
async def test_what_is_due_is_decided_by_the_clock_of_the_database_alone(
    scheduled: StoredSchedules, another_engine: MakeEngine, minutes: int
) -> None:
    def wrong() -> UtcInstant:
        return UtcInstant(scheduled.now().ticks + minutes * 600_000_000)

    right = scheduled.host(schedule(), take_over_seconds=0.001)
    astray = scheduled.host(
        schedule(), owner="host-2", engine=await another_engine(), own_clock=wrong, take_over_seconds=0.001
    )
    await asyncio.gather(astray.reconcile(), right.reconcile())
    assert (await scheduled.state()).next_fire == at(60)
    scheduled.advance(59)
    assert await asyncio.gather(astray.tick(), right.tick()) == [0, 0]
    scheduled.advance(2)
    assert sum(await asyncio.gather(astray.tick(), right.tick())) == 1
    scheduled.advance(59)
    await scheduled.finish()
    assert sum(await asyncio.gather(astray.tick(), right.tick())) == 1
    assert await scheduled.slots() == [60, 120]


async def test_a_slot_whose_job_was_deleted_does_not_fire_again(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(60)
    _, (found_before,) = await scheduled.step(scheduled.store.find_due)
    await host.tick()
    await scheduled.finish()
    await scheduled.forget_jobs()
    assert await host.tick() == 0
    again = await scheduled.hosted(schedule(), owner="host-2")
    assert await again.tick() == 0
    assert await scheduled.finish() == []
    stale = Firing(
        due=found_before,
        plan=SlotPlan(nominal=at(60), cause=Cause.SCHEDULE, handled=at(60), next_fire=at(120)),
        overlap=OverlapPolicy.ALLOW,
        queue="default",
        max_attempts=3,
        priority=0,
    )
    assert await scheduled.step(scheduled.store.fire, [stale], host="host-3") == [FiringOutcome.LOST]
    assert await scheduled.finish() == []


async def test_whoever_fires_second_has_lost_and_changes_nothing(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    scheduled.advance(60)
    firing = await firing_of(scheduled)
    assert await scheduled.step(scheduled.store.fire, [firing], host="host-1") == [FiringOutcome.FIRED]
    after_first = await scheduled.state()
    assert await scheduled.step(scheduled.store.fire, [firing], host="host-2") == [FiringOutcome.LOST]
    assert await scheduled.state() == after_first
    assert len(await scheduled.runs()) == 1


async def test_one_lost_slot_takes_no_other_with_it(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule("a"), schedule("b"), schedule("c"))
    scheduled.advance(60)
    _, found = await scheduled.step(scheduled.store.find_due)
    plan = SlotPlan(nominal=at(60), cause=Cause.SCHEDULE, handled=at(60), next_fire=at(120))

    def firing(due: DueSchedule) -> Firing:
        return Firing(
            due=due, plan=plan, overlap=OverlapPolicy.SKIP, queue="default", max_attempts=1, priority=0
        )

    a, b, c = found
    await scheduled.step(scheduled.store.fire, [firing(b)], host="host-2")
    outcomes = await scheduled.step(scheduled.store.fire, [firing(c), firing(b), firing(a)], host="host-1")
    assert outcomes == [FiringOutcome.FIRED, FiringOutcome.LOST, FiringOutcome.FIRED]
    assert [await scheduled.slots(name) for name in ("a", "b", "c")] == [[60], [60], [60]]
    assert [(await scheduled.state(name)).host for name in ("a", "b", "c")] == ["host-1", "host-2", "host-1"]


@pytest.mark.parametrize("what", ["paused", "disabled", "removed"])
async def test_a_slot_that_was_found_before_a_schedule_was_put_out_of_force_is_lost(
    scheduled: StoredSchedules, what: str
) -> None:
    await scheduled.hosted(schedule())
    scheduled.advance(60)
    firing = await firing_of(scheduled)
    match what:
        case "paused":
            await scheduled.client(schedule()).pause(NAME, actor="ann", reason="audit")
        case "disabled":
            await scheduled.hosted(schedule(enabled=False))
        case _:
            await scheduled.hosted(schedule("another"))
    assert await scheduled.step(scheduled.store.fire, [firing], host="host-1") == [FiringOutcome.LOST]
    assert await scheduled.runs() == []


async def test_every_change_of_a_schedule_takes_a_higher_number(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule(overlap=OverlapPolicy.QUEUE))
    client = scheduled.client(schedule(overlap=OverlapPolicy.QUEUE))
    numbers = [(await scheduled.state()).fencing_number]

    async def changed() -> None:
        numbers.append((await scheduled.state()).fencing_number)

    scheduled.advance(60)
    await host.tick()  # fires
    await changed()
    scheduled.advance(60)
    await host.tick()  # lets one wait
    await changed()
    scheduled.advance(60)
    await host.tick()  # leaves one out
    await changed()
    await scheduled.finish()
    await host.tick()  # releases the one that waits
    await changed()
    await client.pause(NAME, actor="ann", reason="audit")
    await changed()
    await client.resume(NAME, actor="ann", reason="done")
    await changed()
    await scheduled.hosted(schedule(critical=True))
    await changed()
    await scheduled.hosted(schedule("another"))
    await changed()
    assert numbers == list(range(1, 10))


async def test_a_slot_of_which_the_transaction_is_undone_fires_later(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(60)
    firing = await firing_of(scheduled)
    async with scheduled.engine.connect() as connection:  # and then its host is killed
        await connection.run_sync(scheduled.store.fire, [firing], host="host-2")
        await connection.rollback()
    assert await scheduled.runs() == []
    assert await host.tick() == 1
    assert await scheduled.slots() == [60]


@ON_ONE_DATABASE
async def test_slots_of_an_interval_are_one_period_apart_however_late_they_are_seen(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule(interval=timedelta(seconds=90)))
    for seconds in (97, 85, 100, 78):
        scheduled.advance(seconds)
        await host.tick()
        await scheduled.finish()
    assert await scheduled.slots() == [90, 180, 270, 360]


@ON_ONE_DATABASE
async def test_jitter_is_the_same_at_each_slot_and_on_each_host_and_within_its_bound(
    scheduled: StoredSchedules,
) -> None:
    names = [f"mail.{number}" for number in range(30)]
    declared = [schedule(name, jitter=timedelta(seconds=20)) for name in names]
    drawn: dict[str, set[int]] = {name: set() for name in names}
    for number in range(3):
        host = await scheduled.hosted(*declared, owner=f"host-{number}")
        scheduled.advance(60)
        assert await host.tick() == len(names)
        scheduled.advance(20)
        await scheduled.finish()
        scheduled.advance(-20)
        await host._leadership.stand_down()
    for name in names:
        for run in await scheduled.runs(name):
            starts = (await scheduled.job(run)).initial_not_before
            drawn[name].add(0 if starts is None else starts.ticks - run.nominal.ticks)
    assert {len(each) for each in drawn.values()} == {1}
    delays = [delay for each in drawn.values() for delay in each]
    assert all(0 <= delay <= 20 * 10_000_000 for delay in delays)
    assert len(set(delays)) > 20
    assert max(delays) - min(delays) > 10 * 10_000_000


@ON_ONE_DATABASE
async def test_a_job_with_jitter_starts_no_earlier_than_that(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule(jitter=timedelta(seconds=50)))
    scheduled.advance(60)
    await host.tick()
    (run,) = await scheduled.runs()
    starts = (await scheduled.job(run)).initial_not_before
    assert starts is not None
    delay = seconds_of(starts) - 60
    assert delay > 0
    scheduled.advance(delay - 0.001)
    assert await scheduled.finish() == []
    scheduled.advance(0.001)
    assert await scheduled.finish() == [run.job_id]
    assert run.nominal == at(60)


@ON_ONE_DATABASE
async def test_more_slots_than_a_page_fire_in_one_tick_each_schedule_once(scheduled: StoredSchedules) -> None:
    names = [f"a{number:03d}" for number in range(230)]
    host = await scheduled.hosted(*(schedule(name) for name in names))
    scheduled.advance(60)
    assert await host.tick() == 230
    assert {(await scheduled.state(name)).fired for name in (names[0], names[120], names[229])} == {1}
    assert len(await scheduled.finish()) == 230
    assert await host.tick() == 0


@ON_ONE_DATABASE
async def test_the_job_of_a_slot_is_found_among_the_jobs_of_schedules(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(60)
    await host.tick()
    (run,) = await scheduled.runs()
    listed = await scheduled.step(scheduled.jobs.store.list, SCOPE, limit=10)
    assert [each.key.job_id for each in listed] == [run.job_id]


def test_the_identity_of_a_run_is_that_of_its_job_and_of_no_other() -> None:
    identities: Callable[[str], object] = run_id_of
    assert identities("a@1") == identities("a@1")
    assert len({identities(f"a@{number}") for number in range(1000)}) == 1000
