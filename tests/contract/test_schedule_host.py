"""Hosts share the work, follow one another, and tell of themselves only while slots are looked after."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, update
from sqlalchemy.exc import IntegrityError

from jobs.errors import JobOptionError
from jobs.schedule.hosting.host import ScheduleHost
from jobs.schedule.hosting.options import ScheduleOptions
from jobs.schedule.occurrence.interval import IntervalSchedule
from jobs.schedule.occurrence.zone_data import zone_data_version
from jobs.schedule.storing.host_record import HostRecord
from tests.support.apps import running
from tests.support.schedules import NAME, MakeEngine, StoredSchedules, at, schedule
from tests.support.waiting import eventually
from uow.ticks import UtcInstant

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
QUICK = {"tick_seconds": 0.01, "beat_seconds": 0.01}


async def hosts_of(scheduled: StoredSchedules) -> list[HostRecord]:
    return await scheduled.step(scheduled.store.hosts)


def run_of(host: ScheduleHost) -> Any:
    """The host as something that runs until it is told to stop."""

    async def run(stop: asyncio.Event) -> None:
        async def stop_host() -> None:
            await stop.wait()
            host.stop()

        stopping = asyncio.create_task(stop_host())
        try:
            await host.run()
        finally:
            stopping.cancel()

    return run


class Broken:
    """A store of which one verb fails while `broken`."""

    def __init__(self, scheduled: StoredSchedules, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = True
        self.calls = 0
        original = getattr(scheduled.store, verb)

        def called(connection: Connection, *arguments: Any, **rest: Any) -> Any:
            self.calls += 1
            if self.broken:
                raise ValueError("this cannot be read")
            return original(connection, *arguments, **rest)

        monkeypatch.setattr(scheduled.store, verb, called)


async def test_the_host_that_leads_fires_at_once_and_the_others_only_what_it_leaves(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    options: dict[str, Any] = {"take_over_seconds": 5.0, "tick_seconds": 30.0}
    leader = await scheduled.hosted(schedule(), **options)
    second = scheduled.host(schedule(), owner="host-2", engine=await another_engine(), **options)
    await leader.tick()
    scheduled.advance(60)
    assert (await second.tick(), await leader.tick()) == (0, 1)
    await scheduled.finish()
    scheduled.advance(60 + 4.9)
    assert await second.tick() == 0
    assert await leader.tick() == 1
    assert [run.staged for run in await scheduled.runs()] == [at(60), at(124.9)]


async def test_a_slot_that_the_leader_leaves_is_fired_by_another_in_a_few_seconds(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    declared = schedule(interval=timedelta(seconds=20))
    options: dict[str, Any] = {"take_over_seconds": 5.0, "tick_seconds": 30.0}
    leader = await scheduled.hosted(declared, **options)
    second = scheduled.host(declared, owner="host-2", engine=await another_engine(), **options)
    await leader.tick()  # and hangs from now on, while it holds the lease
    scheduled.advance(25)
    assert await second.tick() == 1
    assert second._leadership.held is None
    assert await scheduled.slots() == [20]


async def test_a_host_that_died_is_followed_when_its_lease_has_run_out(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    leader = await scheduled.hosted(schedule(), take_over_seconds=5.0, tick_seconds=1.0)
    second = scheduled.host(schedule(), owner="host-2", engine=await another_engine())
    await leader.tick()
    scheduled.advance(6.9)
    await second.tick()
    assert second._leadership.held is None
    scheduled.advance(0.1)
    await second.tick()
    assert second._leadership.held is not None
    token = second._leadership.held.fencing_token
    assert await scheduled.step(scheduled.leases.holder, "schedules") == ("host-2", token)
    assert token == 2


async def test_a_host_tells_of_itself_after_it_has_looked(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule(), beat_seconds=0.001)
    assert await hosts_of(scheduled) == []
    scheduled.advance(10)
    await host.tick()
    scheduled.advance(10)
    await asyncio.sleep(0.002)
    await host.tick()
    (record,) = await hosts_of(scheduled)
    assert (record.host, record.started, record.ticked) == ("host-1", at(10), at(20))
    assert (record.zone_data, record.ahead_seconds) == (zone_data_version(), 0.0)


@ON_ONE_DATABASE
async def test_a_host_does_not_tell_of_itself_at_each_tick(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule(), beat_seconds=30.0)
    await host.tick()
    scheduled.advance(10)
    await host.tick()
    (record,) = await hosts_of(scheduled)
    assert record.ticked == at(0)


@pytest.mark.parametrize("ahead", [-180.0, 180.0])
async def test_a_host_tells_how_far_its_clock_is_off(scheduled: StoredSchedules, ahead: float) -> None:
    def wrong() -> UtcInstant:
        return UtcInstant(scheduled.now().ticks + round(ahead * 10_000_000))

    await scheduled.host(schedule(), own_clock=wrong).tick()
    (record,) = await hosts_of(scheduled)
    assert record.ahead_seconds == ahead


@pytest.mark.parametrize("verb", ["find_due", "find_waiting", "fire"])
async def test_a_host_of_which_every_tick_fails_does_not_tell_of_itself(
    scheduled: StoredSchedules, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    host = await scheduled.hosted(schedule(), **QUICK)
    scheduled.advance(60)
    defect = Broken(scheduled, verb, monkeypatch)
    async with running(run_of(host)):
        await eventually(lambda: host.health.failing_since is not None and defect.calls > 1)
        assert await hosts_of(scheduled) == []
        assert await scheduled.runs() == []
        defect.broken = False

        async def recovered() -> bool:
            return bool(await scheduled.runs() and await hosts_of(scheduled))

        await eventually(recovered)
        await eventually(lambda: host.health.failing_since is None)
    assert host.health.last_error == "ValueError"


async def test_slots_fire_although_nothing_can_be_settled(
    scheduled: StoredSchedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await scheduled.hosted(schedule())
    Broken(scheduled, "settle_runs", monkeypatch)
    scheduled.advance(60)
    with pytest.raises(ValueError, match="cannot be read"):
        await host.tick()
    assert await scheduled.slots() == [60]


async def test_a_running_host_reconciles_fires_and_leaves_when_it_is_stopped(
    scheduled: StoredSchedules,
) -> None:
    host = scheduled.host(schedule(misfire="catch_up", overlap="allow"), **QUICK)
    async with running(run_of(host)):
        await eventually(lambda: host.health.last_tick is not None)
        assert (await scheduled.state()).next_fire == at(60)
        scheduled.advance(600)

        async def all_fired() -> bool:
            return (await scheduled.state()).next_fire == at(660)

        await eventually(all_fired)
        assert len(await hosts_of(scheduled)) == 1
        holder = await scheduled.step(scheduled.leases.holder, "schedules")
        assert holder is not None
        assert holder[0] == "host-1"
    assert await scheduled.slots() == [60.0 * minute for minute in range(1, 11)]
    assert await hosts_of(scheduled) == []
    assert await scheduled.step(scheduled.leases.holder, "schedules") is None
    assert not host.health.running


async def test_a_stop_ends_the_pause_between_two_ticks(scheduled: StoredSchedules) -> None:
    host = scheduled.host(schedule(), tick_seconds=30.0)
    async with asyncio.timeout(20), running(run_of(host)):
        await eventually(lambda: host.health.last_tick is not None)


@ON_ONE_DATABASE
async def test_a_host_that_is_stopped_in_a_tick_fires_no_further_page(scheduled: StoredSchedules) -> None:
    names = [f"a{number:03d}" for number in range(250)]
    host = await scheduled.hosted(*(schedule(name) for name in names))
    scheduled.advance(60)
    plan = host._planned

    def stop_then_plan(*arguments: Any) -> Any:
        host.stop()
        return plan(*arguments)

    host._planned = stop_then_plan  # type: ignore[method-assign]
    assert await host.tick() == 100
    assert len(await scheduled.finish()) == 100


@ON_ONE_DATABASE
async def test_reconciling_is_tried_again_until_it_succeeds(
    scheduled: StoredSchedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect = Broken(scheduled, "reconcile", monkeypatch)
    host = scheduled.host(schedule(), **QUICK)
    async with running(run_of(host)):
        await eventually(lambda: defect.calls > 1)
        defect.broken = False
        await eventually(lambda: host.health.last_tick is not None)
        calls = defect.calls
    assert defect.calls == calls
    assert (await scheduled.state()).next_fire == at(60)


async def test_hosts_that_were_silent_for_a_day_are_forgotten(scheduled: StoredSchedules) -> None:
    await scheduled.host(schedule(), owner="silent").tick()
    scheduled.advance(86_400)
    await scheduled.host(schedule(), owner="first").tick()
    assert [each.host for each in await hosts_of(scheduled)] == ["first", "silent"]
    scheduled.advance(1)
    await scheduled.host(schedule(), owner="second").tick()
    assert [each.host for each in await hosts_of(scheduled)] == ["second", "first"]


async def test_executors_are_woken_after_the_commit_of_what_was_fired(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule("a"), schedule("b"))
    scheduled.advance(60)
    seen: list[str] = []

    def committed(_connection: Any) -> None:
        seen.append("commit")

    event.listen(scheduled.engine.sync_engine, "commit", committed)
    host._committed = lambda: seen.append("woken")
    try:
        await host.tick()
    finally:
        event.remove(scheduled.engine.sync_engine, "commit", committed)
    assert seen.count("woken") == 1
    assert seen[seen.index("woken") - 1] == "commit"
    woken_at = seen.index("woken")
    assert await scheduled.start_due() != []
    assert woken_at > 0


async def test_a_schedule_that_cannot_be_fired_holds_up_no_other(
    scheduled: StoredSchedules, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["a", "b", "c"]
    host = await scheduled.hosted(*(schedule(name) for name in names))
    scheduled.advance(60)
    await host.tick()
    await scheduled.finish()
    await scheduled.change("b", next_fire_ticks=at(60))  # someone wrote by hand what was decided
    scheduled.advance(60)
    assert await host.tick() == 2
    assert [await scheduled.slots(name) for name in names] == [[60, 120], [60], [60, 120]]
    assert len(await hosts_of(scheduled)) == 1
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.getMessage().startswith("schedule b: failed and will run again: IntegrityError")
    with pytest.raises(IntegrityError):
        await host.tick()


@ON_ONE_DATABASE
async def test_a_schedule_that_cannot_be_planned_holds_up_no_other(
    scheduled: StoredSchedules, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await scheduled.hosted(schedule("a", interval=timedelta(minutes=1)), schedule("b"))

    def fail(*_: Any) -> None:
        raise ValueError("no calendar")

    monkeypatch.setattr(IntervalSchedule, "next_after", fail)
    scheduled.advance(60)
    assert await host.tick() == 1
    assert await scheduled.slots("b") == [60]
    assert [each.getMessage()[:10] for each in caplog.records] == ["schedule a"]
    with pytest.raises(ValueError, match="no calendar"):
        await host.tick()


@ON_ONE_DATABASE
async def test_nobody_is_woken_for_a_slot_that_was_left_out(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    for _ in range(2):
        scheduled.advance(60)
        await host.tick()
    assert scheduled.woken == 1


@ON_ONE_DATABASE
async def test_a_slot_that_others_moved_on_while_it_was_planned_is_lost_quietly(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(60)
    table = scheduled.tables.schedule
    find_due = scheduled.store.find_due

    def find_and_move(connection: Connection, **rest: Any) -> Any:
        found = find_due(connection, **rest)
        number = table.c.fencing_number + 1
        connection.execute(update(table).where(table.c.name == NAME).values(fencing_number=number))
        return found

    scheduled.store.find_due = find_and_move  # type: ignore[method-assign]
    assert await host.tick() == 0
    assert await scheduled.runs() == []


@pytest.mark.parametrize("option", ["tick_seconds", "take_over_seconds", "beat_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "1"])
def test_options_of_a_host_are_checked(option: str, value: Any) -> None:
    with pytest.raises(JobOptionError, match=option):
        ScheduleOptions(**{option: value})


@pytest.mark.parametrize("option", ["tick_seconds", "beat_seconds"])
def test_no_host_is_silent_for_so_long_that_it_counts_as_gone(option: str) -> None:
    ScheduleOptions(**{option: 30})
    with pytest.raises(JobOptionError, match=rf"{option} must be at most 30, not 30\.1"):
        ScheduleOptions(**{option: 30.1})
