"""The report of schedules and hosts: what is declared, stored and running, and why it does not fit."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from jobs.schedule.declaring.override import ScheduleOverrides
from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.hosting.report import ScheduleReport, ScheduleRow
from jobs.schedule.occurrence.zone_data import zone_data_version
from tests.support.schedules import NAME, StoredSchedules, at, catalog_of, crowd, schedule
from tests.support.statements import recorded_statements
from uow.ticks import UtcInstant

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])


async def report_of(scheduled: StoredSchedules, *declared: Any) -> ScheduleReport:
    return await scheduled.client(*declared).report()


async def row_of(scheduled: StoredSchedules, *declared: Any) -> ScheduleRow:
    """What is reported of the one schedule that there is."""
    (row,) = (await report_of(scheduled, *declared)).rows
    return row


async def test_a_healthy_deployment_has_no_problems_and_all_that_is_known_of_it(
    scheduled: StoredSchedules,
) -> None:
    overrides = ScheduleOverrides(source="values.yaml", values={NAME: {"overlap": "queue"}})
    declared = catalog_of(schedule(misfire=MisfirePolicy.SKIP), overrides=[overrides])
    host = scheduled.host(declared)
    await host.reconcile()
    scheduled.advance(300)
    await host.tick()
    await scheduled.finish()
    await host.tick()
    scheduled.advance(60)
    await host.tick()
    for _ in range(2):
        scheduled.advance(60)
        await host.tick()
    report = await report_of(scheduled, declared)
    assert (report.moment, report.zone_data, report.problems) == (at(480), zone_data_version(), ())
    assert [each.host for each in report.live_hosts] == ["host-1"]
    assert report.leader == ("host-1", 4)
    (row,) = report.rows
    assert (row.name, row.problems, row.lag_seconds) == (NAME, (), 0.0)
    assert row.schedule is declared[NAME]
    state = row.state
    assert state is not None
    assert (state.override_source, state.trigger_text) == (
        "values.yaml",
        "cron '* * * * *' in UTC, gap run_after, fold first",
    )
    assert (state.next_fire, state.last_success, state.waiting) == (at(540), at(300), at(420))
    assert (state.fired, state.misfired, state.overlapped) == (2, 4, 1)
    assert (state.host, state.fencing_number) == ("host-1", 5)
    assert row.last_run is not None
    assert (row.last_run.nominal, row.last_run.outcome) == (at(360), None)


async def test_what_is_declared_and_not_stored_is_told(scheduled: StoredSchedules) -> None:
    row = await row_of(scheduled, schedule())
    assert (row.state, row.lag_seconds) == (None, 0.0)
    assert row.problems == ("it is declared but not stored: no host with this declaration has started yet",)


async def test_what_is_stored_and_not_declared_here_is_told(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule(), schedule("z"))
    first, second = (await report_of(scheduled, schedule("z"))).rows
    assert (first.name, first.schedule, second.problems) == (NAME, None, ())
    (problem,) = first.problems
    assert problem.startswith("it is stored but not declared here")


async def test_what_was_removed_is_shown_and_is_no_problem(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule(), schedule("z"))
    await scheduled.hosted(schedule("z"))
    first, _ = (await report_of(scheduled, schedule("z"))).rows
    assert first.state is not None
    assert (first.state.declared, first.schedule, first.problems) == (False, None, ())


@pytest.mark.parametrize(
    ("declared", "stored", "told"),
    [
        (
            {"cron": "0 * * * *"},
            {},
            "declared is cron '0 * * * *' in UTC, gap run_after, fold first, stored is cron",
        ),
        ({"cron": None, "enabled": False}, {"enabled": False}, "declared is no trigger, stored is cron"),
        ({"interval": timedelta(hours=1)}, {"cron": None, "enabled": False}, "every 3600 s, stored is no tr"),
        ({"enabled": False}, {}, "declared is disabled, stored is enabled"),
        ({}, {"enabled": False}, "declared is enabled, stored is disabled"),
    ],
)
async def test_a_host_with_another_declaration_is_told(
    scheduled: StoredSchedules, declared: dict[str, Any], stored: dict[str, Any], told: str
) -> None:
    await scheduled.hosted(schedule(**stored))
    assert told in "; ".join((await row_of(scheduled, schedule(**declared))).problems)
    assert (await row_of(scheduled, schedule(**stored))).problems == ()


async def test_a_removed_schedule_that_is_declared_here_is_told(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule(), schedule("z"))
    await scheduled.hosted(schedule("z"))
    first, _ = (await report_of(scheduled, schedule(), schedule("z"))).rows
    assert first.problems == ("declared is enabled, stored is disabled",)


async def test_an_enabled_schedule_without_a_slot_to_come_is_told(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    await scheduled.change(next_fire_ticks=None)
    assert (await row_of(scheduled, schedule())).problems == ("it is enabled but has no slot to come",)


async def test_a_paused_schedule_has_none_and_that_is_no_problem(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    await scheduled.client(schedule()).pause(NAME, actor="ann", reason="audit")
    row = await row_of(scheduled, schedule())
    assert (row.problems, row.state is not None and row.state.paused) == ((), True)


async def test_a_slot_that_nobody_fires_is_told_after_a_minute(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    scheduled.advance(120)
    row = await row_of(scheduled, schedule())
    assert (row.lag_seconds, row.problems) == (60.0, ())
    scheduled.advance(1)
    row = await row_of(scheduled, schedule())
    assert row.problems == ("its slot is overdue by 61 s: no host that declares it so fires it",)


async def test_a_slot_that_is_made_up_for_in_its_turn_is_told_with_the_run_before_it(
    scheduled: StoredSchedules,
) -> None:
    declared = schedule(misfire=MisfirePolicy.CATCH_UP)
    host = await scheduled.hosted(declared)
    scheduled.advance(600)
    await host.tick()
    (run,) = await scheduled.runs()
    row = await row_of(scheduled, declared)
    assert row.problems == (
        f"its slot is overdue by 480 s: it comes after run {run.run_id}, which has not ended",
    )
    allowing = schedule(misfire=MisfirePolicy.CATCH_UP, overlap=OverlapPolicy.ALLOW)
    assert "no host that declares it so" in (await row_of(scheduled, allowing)).problems[0]


async def test_the_last_run_is_the_one_that_was_queued_last(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule("a"), schedule("z"))
    scheduled.advance(60)
    await host.tick()
    scheduled.advance(5)
    manual = await scheduled.client(schedule("a")).trigger("a", actor="ann", reason="test")
    first, second = (await report_of(scheduled, schedule("a"), schedule("z"))).rows
    assert first.last_run == manual
    assert second.last_run == (await scheduled.runs("z"))[0]


async def test_without_a_host_no_slot_fires_and_that_is_told(scheduled: StoredSchedules) -> None:
    told = ("no host has told of itself within 60 s: no slot fires",)
    host = await scheduled.hosted(schedule())
    assert (await report_of(scheduled, schedule())).problems == told
    await host.tick()
    scheduled.advance(60)
    report = await report_of(scheduled, schedule())
    assert (report.problems, len(report.live_hosts)) == ((), 1)
    scheduled.advance(0.1)
    report = await report_of(scheduled, schedule())
    assert (report.problems, report.live_hosts, len(report.hosts)) == (told, (), 1)
    assert report.leader is None


async def test_without_schedules_no_host_is_missed(scheduled: StoredSchedules) -> None:
    report = await report_of(scheduled)
    assert (report.rows, report.problems, report.leader) == ((), (), None)


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (180.0, "the clock of host host-1 is 180.0 s ahead of the database's"),
        (-180.0, "the clock of host host-1 is 180.0 s behind the database's"),
        (5.0, None),
        (-5.0, None),
    ],
)
async def test_a_host_whose_clock_is_off_is_told(
    scheduled: StoredSchedules, ahead: float, told: str | None
) -> None:
    def wrong() -> UtcInstant:
        return UtcInstant(scheduled.now().ticks + round(ahead * 10_000_000))

    host = await scheduled.hosted(schedule(), own_clock=wrong)
    await host.tick()
    report = await report_of(scheduled, schedule())
    assert report.hosts[0].ahead_seconds == ahead
    assert report.problems == (() if told is None else (told,))


async def test_hosts_with_other_time_zones_are_told(
    scheduled: StoredSchedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await scheduled.hosted(schedule())
    await host.tick()
    table = scheduled.tables.host
    older = update(table).values(zone_data="1970a")
    await scheduled.step(lambda connection: connection.execute(older))
    report = await report_of(scheduled, schedule())
    assert report.problems == (f"time zones of different versions are in use: 1970a, {report.zone_data}",)
    scheduled.advance(61)  # and then it is gone
    assert "time zones" not in report_text(await report_of(scheduled, schedule()))


def report_text(report: ScheduleReport) -> str:
    return " ".join(report.problems)


@ON_ONE_DATABASE
@pytest.mark.parametrize("count", [1, 300])
async def test_a_report_takes_five_statements_for_any_number_of_schedules(
    scheduled: StoredSchedules, count: int
) -> None:
    many = crowd(count)
    host = scheduled.host(many)
    await host.reconcile()
    scheduled.advance(60)
    await host.tick()
    with recorded_statements(scheduled.engine) as statements:
        report = await report_of(scheduled, many)
    assert (len(report.rows), len(statements)) == (count, 5)
    assert all(row.last_run is not None for row in report.rows)


async def test_schedules_are_told_apart_by_the_case_of_their_names(scheduled: StoredSchedules) -> None:
    names = ["Audit", "audit", "audit.A", "audit.a"]
    host = await scheduled.hosted(*(schedule(name) for name in names))
    scheduled.advance(60)
    assert await host.tick() == 4
    report = await report_of(scheduled, *(schedule(name) for name in names))
    assert [row.name for row in report.rows] == names
    assert [len(await scheduled.runs(name)) for name in names] == [1, 1, 1, 1]
    await scheduled.client(schedule("Audit")).pause("Audit", actor="ann", reason="audit")
    assert [(await scheduled.state(name)).paused for name in names] == [True, False, False, False]
