"""What operators do to schedules, each with who and why."""

import asyncio
from uuid import uuid4

import pytest

from jobs.answer import RetryAnswer
from jobs.schedule.declaring.run_policy import OverlapPolicy
from jobs.schedule.errors import UnknownScheduleError
from jobs.schedule.hosting.client import Schedules
from jobs.schedule.storing.action import ActionKind
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.control import PauseAnswer
from tests.support.schedules import NAME, MakeEngine, StoredSchedules, at, schedule
from uow.text import TextError

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
ASKED = {"actor": "ann", "reason": "audit"}


async def test_a_schedule_that_is_triggered_runs_once_more_at_once(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule(queue="night", max_attempts=7, priority=9))
    client = scheduled.client(schedule(queue="night", max_attempts=7, priority=9))
    before = await scheduled.state()
    scheduled.advance(10)
    run = await client.trigger(NAME, actor="ann", reason="disk is full")
    assert (run.name, run.nominal, run.cause, run.outcome) == (NAME, at(10), Cause.MANUAL, None)
    assert await scheduled.runs() == [run]
    job = await scheduled.job(run)
    assert (job.queue, job.max_attempts, job.priority, job.handler) == ("night", 7, 9, f"schedule.{NAME}")
    assert '"cause":"manual"' in (job.arguments or "")
    assert scheduled.woken == 1
    action = (await scheduled.actions())[-1]
    assert (action.kind, action.actor, action.reason) == (ActionKind.TRIGGERED, "ann", "disk is full")
    assert (action.detail, action.occurred) == (f"run {run.run_id}", at(10))
    after = await scheduled.state()
    assert (after.next_fire, after.fired, after.last_nominal) == (before.next_fire, 0, None)


async def test_two_triggers_at_one_moment_are_two_runs(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    client = scheduled.client(schedule())
    runs = await asyncio.gather(*(client.trigger(NAME, **ASKED) for _ in range(3)))
    assert len({run.run_id for run in runs}) == 3
    assert len(await scheduled.runs()) == 3


@pytest.mark.parametrize("what", ["disabled", "without a trigger", "paused", "busy"])
async def test_a_schedule_that_fires_no_slot_may_be_triggered(scheduled: StoredSchedules, what: str) -> None:
    fields = {"disabled": {"enabled": False}, "without a trigger": {"enabled": False, "cron": None}}
    declared = schedule(**fields.get(what, {}))
    host = await scheduled.hosted(declared)
    client = scheduled.client(declared)
    if what == "paused":
        await client.pause(NAME, **ASKED)
    if what == "busy":
        scheduled.advance(60)
        await host.tick()
    run = await client.trigger(NAME, **ASKED)
    assert run.job_id in await scheduled.finish()
    await host.tick()
    (record,) = [each for each in await scheduled.runs() if each.run_id == run.run_id]
    assert record.outcome == "succeeded"


async def test_a_run_that_was_asked_for_counts_as_one_before_the_next_slot(
    scheduled: StoredSchedules,
) -> None:
    host = await scheduled.hosted(schedule())
    await scheduled.client(schedule()).trigger(NAME, **ASKED)
    scheduled.advance(60)
    await host.tick()
    assert (await scheduled.state()).overlapped == 1


async def test_before_any_host_has_started_a_schedule_is_stored_by_who_triggers_or_pauses_it(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    client = scheduled.client(schedule("a"), schedule("b"))
    await asyncio.gather(client.trigger("a", **ASKED), client.trigger("a", **ASKED))
    assert await client.pause("b", **ASKED) is PauseAnswer.PAUSED
    assert [each.kind.value for each in await scheduled.actions("a")].count("declared") == 1
    assert [each.kind.value for each in await scheduled.actions("b")] == ["declared", "paused"]
    host = await scheduled.hosted(schedule("a"), schedule("b"))
    await scheduled.finish()
    scheduled.advance(60)
    await host.tick()
    assert [run.cause.value for run in await scheduled.runs("a")].count("schedule") == 1
    assert await scheduled.runs("b") == []


async def test_a_paused_schedule_fires_nothing_and_gives_up_the_slot_that_waits(
    scheduled: StoredSchedules,
) -> None:
    declared = schedule(overlap=OverlapPolicy.QUEUE)
    host = await scheduled.hosted(declared)
    client = scheduled.client(declared)
    for _ in range(2):
        scheduled.advance(60)
        await host.tick()
    assert await client.pause(NAME, actor="ann", reason="the bank is away") is PauseAnswer.PAUSED
    state = await scheduled.state()
    assert (state.paused, state.enabled, state.next_fire, state.waiting) == (True, True, None, None)
    await scheduled.finish()  # the run that had begun goes on
    scheduled.advance(600)
    assert await host.tick() == 0
    assert await scheduled.slots() == [60]
    action = (await scheduled.actions())[-1]
    assert (action.kind, action.actor, action.reason) == (ActionKind.PAUSED, "ann", "the bank is away")


async def test_a_schedule_that_is_resumed_fires_no_slot_that_came_meanwhile(
    scheduled: StoredSchedules,
) -> None:
    declared = schedule(misfire="catch_up")
    host = await scheduled.hosted(declared)
    client = scheduled.client(declared)
    await client.pause(NAME, **ASKED)
    scheduled.advance(600)
    assert await client.resume(NAME, actor="bob", reason="the audit is over") is PauseAnswer.RESUMED
    assert (await scheduled.state()).next_fire == at(660)
    assert await host.tick() == 0
    scheduled.advance(60)
    await host.tick()
    assert await scheduled.slots() == [660]
    assert (await scheduled.state()).misfired == 0
    action = (await scheduled.actions())[-1]
    assert (action.kind, action.actor, action.reason) == (ActionKind.RESUMED, "bob", "the audit is over")


async def test_pausing_twice_and_resuming_what_goes_on_change_nothing(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    client = scheduled.client(schedule())
    assert await client.resume(NAME, **ASKED) is PauseAnswer.UNCHANGED
    await client.pause(NAME, **ASKED)
    before = await scheduled.state()
    assert await client.pause(NAME, actor="bob", reason="again") is PauseAnswer.UNCHANGED
    assert await scheduled.state() == before
    assert await scheduled.told() == ["paused"]


async def test_operators_at_the_same_moment_pause_and_resume_once(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    await scheduled.hosted(schedule())
    clients = [StoredSchedules(await another_engine(), scheduled.clock).client(schedule()) for _ in range(4)]
    answers = await asyncio.gather(*(client.pause(NAME, **ASKED) for client in clients))
    assert sorted(answers) == ["paused", "unchanged", "unchanged", "unchanged"]
    answers = await asyncio.gather(*(client.resume(NAME, **ASKED) for client in clients))
    assert sorted(answers) == ["resumed", "unchanged", "unchanged", "unchanged"]
    assert await scheduled.told() == ["paused", "resumed"]


async def test_a_disabled_schedule_that_is_resumed_stays_disabled(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule(enabled=False))
    client = scheduled.client(schedule(enabled=False))
    await client.pause(NAME, **ASKED)
    assert await client.resume(NAME, **ASKED) is PauseAnswer.RESUMED
    state = await scheduled.state()
    assert (state.paused, state.enabled, state.next_fire) == (False, False, None)


async def test_a_schedule_that_is_declared_no_longer_may_still_be_paused(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule())
    client = scheduled.client(schedule("another"))
    assert await client.pause(NAME, **ASKED) is PauseAnswer.PAUSED


async def test_a_failed_run_is_retried_with_its_slot_and_its_identity(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    client = scheduled.client(schedule())
    scheduled.advance(60)
    await host.tick()
    await scheduled.finish("bank_away")
    await host.tick()
    (failed,) = await scheduled.runs()
    assert (failed.outcome, failed.code) == ("failed", "bank_away")
    scheduled.advance(5)
    woken = scheduled.woken
    assert await client.retry(failed.run_id, actor="ann", reason="bank is back") is RetryAnswer.QUEUED
    assert scheduled.woken == woken + 1
    (opened,) = await scheduled.runs()
    assert (opened.run_id, opened.nominal, opened.job_id) == (failed.run_id, at(60), failed.job_id)
    assert (opened.outcome, opened.code, opened.ended, opened.staged) == (None, None, None, at(65))
    action = (await scheduled.actions())[-1]
    assert (action.kind, action.actor, action.reason) == (ActionKind.RETRIED, "ann", "bank is back")
    assert action.detail == f"run {failed.run_id}, slot {at(60)}"
    assert await scheduled.finish() == [failed.job_id]
    await host.tick()
    (settled,) = await scheduled.runs()
    assert (settled.outcome, settled.code, settled.ended) == ("succeeded", None, at(65))
    assert (await scheduled.state()).last_success == at(65)


async def test_a_retried_run_is_one_before_the_next_slot(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(60)
    await host.tick()
    await scheduled.finish("bank_away")
    await host.tick()
    (failed,) = await scheduled.runs()
    await scheduled.client(schedule()).retry(failed.run_id, **ASKED)
    scheduled.advance(60)
    await host.tick()
    assert await scheduled.slots() == [60]
    assert (await scheduled.state()).overlapped == 1


async def test_a_run_that_has_no_need_of_it_is_not_retried(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule(max_attempts=1))
    client = scheduled.client(schedule(max_attempts=1))
    scheduled.advance(60)
    await host.tick()
    (run,) = await scheduled.runs()
    assert await client.retry(run.run_id, **ASKED) is RetryAnswer.INVALID_STATE
    await scheduled.finish("bank_away")
    await host.tick()
    assert await client.retry(run.run_id, **ASKED) is RetryAnswer.NO_ATTEMPTS_LEFT
    await scheduled.forget_jobs()
    assert await client.retry(run.run_id, **ASKED) is RetryAnswer.NOT_FOUND
    assert await client.retry(uuid4(), **ASKED) is RetryAnswer.NOT_FOUND
    (after,) = await scheduled.runs()
    assert (after.outcome, after.code) == ("failed", "bank_away")
    assert await scheduled.told() == []


async def test_operators_at_the_same_moment_retry_a_run_once(
    scheduled: StoredSchedules, another_engine: MakeEngine
) -> None:
    host = await scheduled.hosted(schedule())
    scheduled.advance(60)
    await host.tick()
    await scheduled.finish("bank_away")
    await host.tick()
    (run,) = await scheduled.runs()
    clients = [StoredSchedules(await another_engine(), scheduled.clock).client(schedule()) for _ in range(3)]
    answers = await asyncio.gather(*(client.retry(run.run_id, **ASKED) for client in clients))
    assert sorted(answers) == ["invalid_state", "invalid_state", "queued"]
    assert await scheduled.told() == ["retried"]


class TestRefusals:
    """Names that nobody knows, and acts without an actor or a reason."""

    @pytest.fixture
    def database_kind(self) -> str:
        return "sqlite"

    @pytest.fixture
    async def client(self, scheduled: StoredSchedules) -> Schedules:
        await scheduled.hosted(schedule())
        return scheduled.client(schedule())

    @pytest.mark.parametrize("verb", ["trigger", "pause", "resume"])
    async def test_a_name_that_nobody_knows_is_refused_with_the_one_that_is_meant(
        self, client: Schedules, verb: str
    ) -> None:
        with pytest.raises(UnknownScheduleError, match=r"files\.cleanups.*did you mean .*files\.cleanup"):
            await getattr(client, verb)("files.cleanups", **ASKED)

    @pytest.mark.parametrize("verb", ["trigger", "pause", "resume", "retry"])
    @pytest.mark.parametrize("field", ["actor", "reason"])
    @pytest.mark.parametrize("value", ["", "  ", "a\x00b", "x" * 1001, None])
    async def test_nothing_is_done_without_saying_who_and_why(
        self, scheduled: StoredSchedules, client: Schedules, verb: str, field: str, value: str | None
    ) -> None:
        name = uuid4() if verb == "retry" else NAME
        with pytest.raises(TextError, match=field):
            await getattr(client, verb)(name, **ASKED | {field: value})
        assert await scheduled.told() == []
        assert await scheduled.runs() == []


@ON_ONE_DATABASE
async def test_what_was_done_to_all_schedules_is_told_the_latest_first(scheduled: StoredSchedules) -> None:
    await scheduled.hosted(schedule("a"), schedule("b"))
    client = scheduled.client(schedule("a"), schedule("b"))
    await client.pause("b", **ASKED)
    await client.pause("a", **ASKED)
    latest = await client.actions(limit=3)
    assert [(each.name, each.kind.value) for each in latest] == [
        ("a", "paused"),
        ("b", "paused"),
        ("b", "declared"),
    ]
    assert [each.kind.value for each in await client.actions("a")] == ["paused", "declared"]


@ON_ONE_DATABASE
async def test_runs_are_told_the_latest_first(scheduled: StoredSchedules) -> None:
    host = await scheduled.hosted(schedule())
    for _ in range(4):
        scheduled.advance(60)
        await host.tick()
        await scheduled.finish()
    runs = await scheduled.client(schedule()).runs(NAME, limit=3)
    assert [run.nominal for run in runs] == [at(240), at(180), at(120)]
