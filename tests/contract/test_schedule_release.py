"""What speaks against a release: each reason one sentence with the schedule that it is about."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.declaring.override import ScheduleOverrides
from jobs.schedule.hosting.release_gate import release_problems
from relay.app import App
from tests.support.databases import create_tables, engine_for
from tests.support.schedules import NAME, StoredSchedules, at, at_once, catalog_of, metadata, schedule
from uow.contracts import Contracts

pytest_plugins = ("tests.support.schedules_fixture",)

WITHIN = timedelta(hours=1)


def critical(**fields: Any) -> Any:
    return schedule(**{"critical": True} | fields)


async def problems_of(scheduled: StoredSchedules, *declared: Any) -> list[str]:
    return release_problems(await scheduled.client(*declared).report())


async def test_nothing_speaks_against_a_deployment_that_is_well(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(critical(succeed_within=WITHIN))
    scheduled.advance(60)
    await host.tick()
    await scheduled.finish()
    await host.tick()
    scheduled.advance(30)
    assert await problems_of(scheduled, critical(succeed_within=WITHIN)) == []


async def test_a_critical_schedule_that_is_disabled(scheduled: StoredSchedules) -> None:
    await (await scheduled.hosted(critical(enabled=False))).tick()
    assert await problems_of(scheduled, critical(enabled=False)) == [
        f"schedule {NAME}: it is critical, and disabled"
    ]


async def test_a_critical_schedule_that_the_deployment_disables_names_what_does(
    scheduled: StoredSchedules,
) -> None:
    overrides = ScheduleOverrides(source="values.yaml", values={NAME: {"enabled": False}})
    declared = catalog_of(critical(), overrides=[overrides])
    host = scheduled.host(declared)
    await host.reconcile()
    await host.tick()
    assert await problems_of(scheduled, declared) == [
        f"schedule {NAME}: it is critical, and disabled, by values.yaml"
    ]


async def test_a_critical_schedule_that_is_paused(scheduled: StoredSchedules) -> None:
    await (await scheduled.hosted(critical())).tick()
    await scheduled.client(critical()).pause(NAME, actor="ann", reason="audit")
    assert await problems_of(scheduled, critical()) == [f"schedule {NAME}: it is critical, and paused"]


async def test_a_critical_schedule_without_a_slot_to_come_is_told_once(scheduled: StoredSchedules) -> None:
    await (await scheduled.hosted(critical())).tick()
    await scheduled.change(next_fire_ticks=None)
    assert await problems_of(scheduled, critical()) == [
        f"schedule {NAME}: it is enabled but has no slot to come"
    ]


async def test_a_critical_schedule_that_has_never_succeeded(scheduled: StoredSchedules) -> None:
    declared = critical(succeed_within=WITHIN)
    host = await scheduled.hosted(declared)
    scheduled.advance(60)
    await host.tick()
    await scheduled.finish("bank_away")
    await host.tick()
    assert await problems_of(scheduled, declared) == [
        f"schedule {NAME}: it is critical, and has never succeeded; it must within 1:00:00"
    ]


async def test_a_critical_schedule_that_has_not_succeeded_for_too_long(scheduled: StoredSchedules) -> None:
    declared = critical(cron="0 0 * * *", succeed_within=WITHIN)
    host = await scheduled.hosted(declared)
    scheduled.advance(86_400)
    await host.tick()
    await scheduled.finish()
    scheduled.advance(3600)
    await host.tick()
    assert await problems_of(scheduled, declared) == []
    scheduled.advance(0.001)
    assert await problems_of(scheduled, declared) == [
        f"schedule {NAME}: it is critical, and last succeeded at {at(86_400)}; it must within 1:00:00"
    ]


async def test_a_schedule_that_is_not_critical_may_be_out_of_force(scheduled: StoredSchedules) -> None:
    declared = [schedule("a", enabled=False), schedule("b", succeed_within=WITHIN), schedule("c")]
    await (await scheduled.hosted(*declared)).tick()
    await scheduled.client(*declared).pause("c", actor="ann", reason="audit")
    assert await problems_of(scheduled, *declared) == []


async def test_a_declaration_that_differs_from_what_is_stored(scheduled: StoredSchedules) -> None:
    await (await scheduled.hosted(schedule())).tick()
    (problem,) = await problems_of(scheduled, schedule(cron="0 * * * *"))
    assert problem.startswith(f"schedule {NAME}: declared is cron '0 * * * *'")
    (problem,) = await problems_of(scheduled, schedule(), schedule("b"))
    assert problem.startswith("schedule b: it is declared but not stored")


async def test_a_host_that_last_ticked_too_long_ago(scheduled: StoredSchedules) -> None:
    await (await scheduled.hosted(schedule(cron="0 0 * * *"))).tick()
    scheduled.advance(61)
    assert await problems_of(scheduled, schedule(cron="0 0 * * *")) == [
        "schedules: no host has told of itself within 60 s: no slot fires"
    ]


async def test_every_reason_is_told_at_once(scheduled: StoredSchedules) -> None:
    declared = [critical(name="a", enabled=False), critical(name="b", succeed_within=WITHIN)]
    await scheduled.hosted(*declared)
    scheduled.advance(600)
    assert await problems_of(scheduled, *declared) == [
        "schedules: no host has told of itself within 60 s: no slot fires",
        "schedule a: it is critical, and disabled",
        "schedule b: its slot is overdue by 540 s: no host that declares it so fires it",
        "schedule b: it is critical, and has never succeeded; it must within 1:00:00",
    ]


def app_on(engine: AsyncEngine, *declared: Any) -> App:
    module = ScheduleModule("files")
    for each in declared:
        module.declare(each)
        module.execute(each.name, at_once)
    schedules = [module] if declared else []
    return App(engine=engine, metadata=metadata, contracts=Contracts(), schedules=schedules)


class TestDurability:
    """Databases that lose commits, as the App is connected to them."""

    @pytest.fixture
    async def careless(self, database_kind: str, database_url: str) -> AsyncIterator[AsyncEngine]:
        options: dict[str, Any] = {}
        if database_kind == "postgresql":  # as a setting of the role or of the database would
            options = {"connect_args": {"server_settings": {"synchronous_commit": "off"}}}
        async with engine_for(database_url, **options) as engine:
            if database_kind == "sqlite":
                event.listen(engine.sync_engine, "connect", _synchronise_nothing)
            if database_kind == "mariadb":  # a setting of the whole server, which others use
                event.listen(engine.sync_engine, "before_cursor_execute", _answer_two, retval=True)
            await create_tables(engine, metadata)
            yield engine

    async def test_a_database_that_keeps_its_commits_is_fit(self, engine: AsyncEngine) -> None:
        await create_tables(engine, metadata)
        assert await app_on(engine).release_problems() == []

    async def test_a_database_that_loses_commits_is_not(
        self, careless: AsyncEngine, database_kind: str
    ) -> None:
        setting = {
            "sqlite": "synchronous is 0",
            "postgresql": "synchronous_commit is off",
            "mariadb": "innodb_flush_log_at_trx_commit is 2",
        }[database_kind]
        assert await app_on(careless).release_problems() == [
            f"database: {setting}: a commit may be lost when the server loses its power"
        ]
        first, *rest = await app_on(careless, schedule()).release_problems()
        assert first.startswith("database: ")
        assert [problem.partition(":")[0] for problem in rest] == ["schedules", f"schedule {NAME}"]


def _synchronise_nothing(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous = OFF")


def _answer_two(
    _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
) -> tuple[str, Any]:
    return statement.replace("SELECT @@innodb_flush_log_at_trx_commit", "SELECT 2"), parameters
