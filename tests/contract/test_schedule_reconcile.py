"""Bringing what is stored in line with what is declared, at each start of a host."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from jobs.schedule.declaring.override import ScheduleOverrides
from jobs.schedule.declaring.run_policy import OverlapPolicy
from jobs.schedule.storing.action import ActionKind
from tests.support.schedules import NAME, MakeEngine, StoredSchedules, at, catalog_of, crowd, schedule
from tests.support.statements import recorded_statements

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HOURLY = "0 * * * *"


async def test_a_new_schedule_gets_the_first_slot_after_now(scheduled: StoredSchedules) -> None:
    scheduled.advance(30)
    await scheduled.hosted(schedule(critical=True), schedule("off", cron=None, enabled=False))
    state = await scheduled.state()
    assert (state.next_fire, state.last_nominal, state.last_success) == (at(60), None, None)
    assert (state.declared, state.enabled, state.critical, state.paused) == (True, True, True, False)
    assert (state.fired, state.misfired, state.overlapped, state.fencing_number) == (0, 0, 0, 1)
    assert state.trigger_text == "cron '* * * * *' in UTC, gap run_after, fold first"
    off = await scheduled.state("off")
    assert (off.enabled, off.next_fire, off.trigger_text) == (False, None, None)
    (action,) = await scheduled.actions()
    assert (action.kind, action.actor, action.occurred) == (ActionKind.DECLARED, "host-1", at(30))
    assert action.detail == state.trigger_text
    (action,) = await scheduled.actions("off")
    assert action.detail == "no trigger, disabled"


async def test_who_comes_second_changes_nothing(scheduled: StoredSchedules) -> None:
    declared = [schedule(), schedule("off", enabled=False), schedule("b", interval=timedelta(hours=1))]
    await scheduled.hosted(*declared)
    before = await scheduled.step(scheduled.store.states)
    scheduled.advance(45)
    await scheduled.hosted(*declared, owner="host-2")
    assert await scheduled.step(scheduled.store.states) == before
    assert len(await scheduled.actions(None)) == 3


@pytest.mark.parametrize(
    "changed",
    [{"cron": HOURLY}, {"cron": "0 1 * * *", "time_zone": "Europe/Berlin"}, {"interval": timedelta(hours=1)}],
)
async def test_a_changed_trigger_recomputes_the_next_slot_once(
    scheduled: StoredSchedules, changed: dict[str, Any]
) -> None:
    await scheduled.hosted(schedule())
    scheduled.advance(1800)
    await scheduled.hosted(schedule(**changed), owner="host-2")
    state = await scheduled.state()
    expected = {"cron": 3600, "interval": 1800 + 3600}
    seconds = 24 * 3600 if "time_zone" in changed else expected[next(iter(changed))]
    assert state.next_fire == at(seconds)
    scheduled.advance(900)
    await scheduled.hosted(schedule(**changed), owner="host-3")
    assert await scheduled.state() == state
    assert await scheduled.told() == ["changed"]
    assert (await scheduled.actions())[-1].actor == "host-2"


async def test_a_changed_trigger_never_goes_back_to_a_slot_that_was_decided(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule(cron=HOURLY))
    scheduled.advance(3600)
    await host.tick()
    scheduled.advance(-10)  # the clock of the database was put back
    await scheduled.hosted(schedule(cron="0 */1 * * *"))
    assert (await scheduled.state()).next_fire == at(7200)


async def test_a_change_of_the_zone_alone_moves_the_slot(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule(cron="0 6 * * *"))
    assert (await scheduled.state()).next_fire == at(6 * 3600)
    await scheduled.hosted(schedule(cron="0 6 * * *", time_zone="Europe/Berlin"))
    assert (await scheduled.state()).next_fire == at(5 * 3600)


async def test_a_change_of_anything_else_leaves_the_slot_alone(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule(interval=timedelta(hours=1)))
    scheduled.advance(60)
    other = schedule(interval=timedelta(hours=1), critical=True, module="files")
    overrides = ScheduleOverrides(source="values.yaml", values={NAME: {"overlap": "allow"}})
    host = scheduled.host(catalog_of(other, overrides=[overrides]))
    await host.reconcile()
    state = await scheduled.state()
    assert (state.next_fire, state.critical, state.override_source) == (at(3600), True, "values.yaml")
    assert (await scheduled.actions())[-1].detail == "every 3600 s, overridden by values.yaml"


async def test_a_schedule_that_is_declared_no_longer_is_put_out_of_force_and_told(
    scheduled: StoredSchedules, caplog: pytest.LogCaptureFixture
) -> None:
    await scheduled.hosted(schedule(), schedule("kept"))
    with caplog.at_level(logging.WARNING, "jobs.schedule.hosting.host"):
        host = await scheduled.hosted(schedule("kept"), owner="host-2")
    assert [record.getMessage() for record in caplog.records] == [
        f"schedule {NAME} is declared no longer; none of its slots fires"
    ]
    state = await scheduled.state()
    assert (state.declared, state.enabled, state.next_fire, state.fired) == (False, False, None, 0)
    assert await scheduled.told() == ["removed"]
    scheduled.advance(120)
    await host.tick()
    assert await scheduled.runs() == []
    await scheduled.hosted(schedule("kept"), owner="host-3")
    assert await scheduled.told() == ["removed"]


async def test_a_schedule_that_is_declared_again_goes_on_with_its_history(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(60)
    await host.tick()
    await scheduled.finish()
    await host._leadership.stand_down()
    await scheduled.hosted(schedule("kept"))
    scheduled.advance(600)
    host = await scheduled.hosted(schedule(), owner="host-2")
    state = await scheduled.state()
    assert (state.declared, state.enabled, state.next_fire, state.fired) == (True, True, at(720), 1)
    scheduled.advance(60)
    await host.tick()
    assert await scheduled.slots() == [60, 720]
    assert await scheduled.told() == ["removed", "changed"]


async def test_a_paused_schedule_stays_paused_whatever_is_declared(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    client = scheduled.client(schedule(cron=HOURLY))
    await client.pause(NAME, actor="ann", reason="audit")
    for declared in (schedule(cron=HOURLY), schedule("another"), schedule(enabled=False), schedule()):
        await scheduled.hosted(declared)
        state = await scheduled.state()
        assert (state.paused, state.next_fire) == (True, None)
    await scheduled.hosted(schedule(cron=HOURLY))
    await client.resume(NAME, actor="ann", reason="done")
    assert (await scheduled.state()).next_fire == at(3600)


async def test_a_schedule_that_is_disabled_and_enabled_again_fires_no_slot_of_between(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule(overlap=OverlapPolicy.QUEUE))
    for _ in range(2):
        scheduled.advance(60)
        await host.tick()
    assert (await scheduled.state()).waiting == at(120)
    await host._leadership.stand_down()
    host = await scheduled.hosted(schedule(enabled=False, overlap=OverlapPolicy.QUEUE), owner="host-2")
    state = await scheduled.state()
    assert (state.enabled, state.next_fire, state.waiting) == (False, None, None)
    await scheduled.finish()
    scheduled.advance(300)
    assert await host.tick() == 0
    await host._leadership.stand_down()
    host = await scheduled.hosted(schedule(overlap=OverlapPolicy.QUEUE), owner="host-3")
    assert (await scheduled.state()).next_fire == at(480)
    scheduled.advance(60)
    await host.tick()
    assert await scheduled.slots() == [60, 480]


async def test_hosts_that_start_together_store_change_and_remove_each_schedule_once(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    before = [schedule(f"a{number:03d}") for number in range(60)]
    after = [schedule(f"a{number:03d}", cron=HOURLY) for number in range(30, 90)]

    async def together(*declared: Any) -> None:
        hosts = [
            scheduled.host(*declared, owner=f"host-{number}", engine=await another_engine())
            for number in range(4)
        ]
        await asyncio.gather(*(host.reconcile() for host in hosts))

    await together(*before)
    assert [each.kind.value for each in await scheduled.actions(None)] == ["declared"] * 60
    await together(*after)
    told = sorted(each.kind.value for each in (await scheduled.actions(None))[60:])
    assert told == ["changed"] * 30 + ["declared"] * 30 + ["removed"] * 30
    states = await scheduled.step(scheduled.store.states)
    assert {(each.fencing_number, each.next_fire) for each in states} == {
        (1, at(3600)),
        (2, at(3600)),
        (2, None),
    }


async def test_a_change_is_not_lost_to_a_slot_that_fires_at_the_same_moment(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    if scheduled.engine.dialect.name == "sqlite":
        pytest.skip("one transaction writes at a time")
    older = await scheduled.hosted(schedule())
    scheduled.advance(60)
    newer = scheduled.host(schedule(cron=HOURLY), owner="host-2", engine=await another_engine())
    read = asyncio.Event()
    engine = newer._engine.sync_engine

    def seen(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("SELECT") and "jobs_schedule" in statement and "FOR UPDATE" not in statement:
            read.set()

    event.listen(engine, "after_cursor_execute", seen)
    async with scheduled.engine.connect() as connection:  # a host that is just firing
        _, due = await connection.run_sync(scheduled.store.find_due)
        await connection.run_sync(scheduled.store.fire, older._planned(due, at(60)), host="host-1")
        reconciling = asyncio.create_task(newer.reconcile())
        await read.wait()
        await connection.commit()
    await reconciling
    state = await scheduled.state()
    assert (state.fired, state.next_fire, state.last_nominal) == (1, at(3600), at(60))
    assert state.trigger_text is not None
    assert HOURLY in state.trigger_text
    assert await scheduled.told() == ["changed"]


async def test_a_host_of_an_older_deployment_leaves_a_slot_to_one_that_declares_it(
    scheduled: StoredSchedules,
) -> None:
    older = await scheduled.hosted(schedule(), owner="older", take_over_seconds=5.0)
    await older.tick()  # leads
    newer = await scheduled.hosted(schedule(cron="*/2 * * * *"), owner="newer", take_over_seconds=5.0)
    scheduled.advance(120)
    assert await older.tick() == 0
    scheduled.advance(4.9)
    assert await older.tick() == 0
    assert await newer.tick() == 0  # not yet: a leader might fire it
    scheduled.advance(0.1)
    assert await older.tick() == 0
    assert await newer.tick() == 1
    assert await scheduled.slots() == [120]
    assert (await scheduled.state()).host == "newer"
    assert older._leadership.held is not None


@ON_ONE_DATABASE
async def test_a_host_fires_nothing_of_what_it_does_not_declare(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    stranger = scheduled.host(schedule("another"), owner="host-2")
    scheduled.advance(600)
    assert await stranger.tick() == 0
    assert await scheduled.runs() == []


async def test_ten_thousand_schedules_are_reconciled_in_as_many_statements_as_portions(
    scheduled: StoredSchedules,
) -> None:
    many = crowd(10_000)
    host = scheduled.host(many)
    with recorded_statements(scheduled.engine) as statements:
        await host.reconcile()
    assert len(statements) < 30, len(statements)
    again = scheduled.host(many, owner="host-2")
    with recorded_statements(scheduled.engine) as statements:
        await again.reconcile()
    assert len(statements) <= 3, statements
    assert (await scheduled.state("crowd.09999")).fencing_number == 1
    hourly = catalog_of(schedule(cron=HOURLY))[NAME].trigger
    changed = scheduled.host({name: replace(each, trigger=hourly) for name, each in many.items()})
    with recorded_statements(scheduled.engine) as statements:
        await changed.reconcile()
    assert len(statements) < 60, len(statements)
    assert (await scheduled.state("crowd.09999")).next_fire == at(3600)
