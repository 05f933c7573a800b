"""What the executor of a schedule is given, and what becomes of a run by how its executor ends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest
from sqlalchemy import Connection, event

from jobs.answer import RetryAnswer
from jobs.execution.stop_reason import StopReason
from jobs.schedule.declaring.result import ScheduleResult
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.ground import SCOPE
from jobs.schedule.storing.run_identity import run_id_of
from jobs.submission import JobSubmission
from tests.support.job_bench import Gate
from tests.support.schedule_bench import ScheduleBench
from tests.support.schedules import NAME, StoredSchedules, at, catalog_of, schedule
from tests.support.waiting import eventually
from uow.outcome import RetryAfter
from uow.ticks import TICKS_PER_SECOND, UtcInstant

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])


class Work(Protocol):
    def __call__(self, context: ScheduleContext, /) -> Awaitable[Any]: ...


async def test_an_executor_sees_its_slot_its_cause_and_its_run(bench: ScheduleBench) -> None:
    seen: list[ScheduleContext] = []

    async def look(context: ScheduleContext) -> None:
        seen.append(context)

    schedules = catalog_of(schedule(), work=look)
    host = bench.host(schedules)
    await host.reconcile()
    due = UtcInstant((await bench.step(bench.store.moment)).ticks - 5 * TICKS_PER_SECOND)
    await bench.change(next_fire_ticks=due)
    await host.tick()
    (run,) = await bench.runs()
    async with bench.executing(schedules):
        await bench.ended(run)
    (context,) = seen
    assert (context.name, context.nominal, context.cause) == (NAME, due, Cause.SCHEDULE)
    assert context.run_id == run.run_id == run_id_of(context.job.job_id)
    assert (context.attempt, context.stop_reason, context.job.attempts_left) == (1, None, 2)


@pytest.mark.parametrize("result", [None, ScheduleResult.ok()])
async def test_a_run_that_ends_well_has_succeeded(
    bench: ScheduleBench, result: ScheduleResult | None
) -> None:
    async def work(context: ScheduleContext) -> ScheduleResult | None:
        return result

    run = await bench.run(work)
    assert (run.outcome, run.code, run.detail, run.attempt) == ("succeeded", None, None, 1)
    assert run.started is not None
    assert run.ended is not None
    assert run.staged <= run.started <= run.ended
    assert (await bench.state()).last_success == (await bench.job(run)).completed
    assert await bench.attempts(run) == [("succeeded", None)]


async def test_an_object_may_do_the_work_and_say_what_it_did(bench: ScheduleBench) -> None:
    class Cleanup:
        async def execute(self, context: ScheduleContext) -> ScheduleResult:
            return ScheduleResult.ok("17 files deleted")

    run = await bench.run(Cleanup())
    assert (run.outcome, run.detail) == ("succeeded", "17 files deleted")
    assert (await bench.job(run)).result_reference == "17 files deleted"


@ON_ONE_DATABASE
async def test_what_a_run_says_is_cut_and_made_fit_to_be_stored(bench: ScheduleBench) -> None:
    async def work(context: ScheduleContext) -> ScheduleResult:
        return ScheduleResult.ok("\x00" + "x" * 5000)

    run = await bench.run(work)
    assert run.outcome == "succeeded"
    assert run.detail == "\N{REPLACEMENT CHARACTER}" + "x" * 999


async def test_a_failure_of_the_business_is_a_failed_attempt_with_its_code(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    async def settle(context: ScheduleContext) -> ScheduleResult:
        return ScheduleResult.failed("bank_away", "no answer within 30 s")

    run = await bench.run(settle)
    assert (run.outcome, run.code, run.detail) == ("failed", "bank_away", "no answer within 30 s")
    job = await bench.job(run)
    assert (job.state.value, job.error_code) == ("failed", "bank_away")
    assert await bench.attempts(run) == [("failed", "bank_away")]
    assert (await bench.state()).last_success is None
    assert "Traceback" not in caplog.text


async def test_an_exception_goes_on_up(bench: ScheduleBench) -> None:
    async def work(context: ScheduleContext) -> None:
        raise ValueError("the disk is full")

    run = await bench.run(work)
    assert (run.outcome, run.code, run.detail) == ("failed", "handler_error", "ValueError")
    job = await bench.job(run)
    assert job.error_code == "handler_error"
    assert "the disk is full" in (job.error_detail or "")


async def test_a_result_of_another_kind_is_a_failure_that_says_so(bench: ScheduleBench) -> None:
    async def work(context: ScheduleContext) -> Any:
        return {"deleted": 17}

    run = await bench.run(work)
    assert (run.outcome, run.code, run.detail) == ("failed", "result", "JobResultError")
    job = await bench.job(run)
    assert "must return a ScheduleResult or None, not dict" in (job.error_detail or "")


async def test_another_attempt_is_the_same_run_and_says_that_it_is_one(bench: ScheduleBench) -> None:
    seen: list[tuple[Any, ...]] = []

    async def work(context: ScheduleContext) -> ScheduleResult | None:
        seen.append((context.attempt, context.cause, context.run_id, context.nominal))
        if context.attempt == 1:
            raise RetryAfter(0.01)
        return ScheduleResult.ok("at last")

    run = await bench.run(work)
    assert [(attempt, cause) for attempt, cause, _, _ in seen] == [(1, Cause.MANUAL), (2, Cause.RETRY)]
    assert {(run_id, nominal) for _, _, run_id, nominal in seen} == {(run.run_id, run.nominal)}
    assert (run.outcome, run.code, run.detail, run.attempt) == ("succeeded", None, "at last", 2)
    assert await bench.attempts(run) == [("failed", "retry_after"), ("succeeded", None)]


async def test_a_failed_run_that_an_operator_retries_is_run_again(bench: ScheduleBench) -> None:
    seen: list[tuple[int, Cause]] = []

    async def work(context: ScheduleContext) -> ScheduleResult:
        seen.append((context.attempt, context.cause))
        return ScheduleResult.failed("bank_away") if len(seen) == 1 else ScheduleResult.ok()

    failed = await bench.run(work)
    schedules = catalog_of(schedule(), work=work)
    await bench.client(schedules).retry(failed.run_id, actor="ann", reason="bank is back")
    async with bench.executing(schedules):
        await bench.ended(failed)
    run = await bench.settled(failed)
    assert seen == [(1, Cause.MANUAL), (2, Cause.RETRY)]
    assert (run.outcome, run.code, run.attempt) == ("succeeded", None, 2)


async def test_a_run_is_seen_while_it_runs(bench: ScheduleBench) -> None:
    gate = Gate()
    schedules, run = await bench.asked(lambda_of(gate.pass_through))
    async with bench.executing(schedules):
        await gate.until_reached()
        during = await bench.found(run)
        gate.open.set()
        await bench.ended(run)
    assert (during.attempt, during.ended, during.outcome) == (1, None, None)
    assert during.started is not None


async def test_a_cancelled_run_hears_of_it_and_ends_cancelled(bench: ScheduleBench) -> None:
    gate, reasons = Gate(), list[StopReason | None]()

    async def work(context: ScheduleContext) -> None:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            reasons.append(context.stop_reason)
            raise

    schedules, run = await bench.asked(work)
    async with bench.executing(schedules):
        await gate.until_reached()
        await bench.step(bench.jobs.store.cancel, SCOPE, run.job_id)
        await bench.ended(run)
    run = await bench.settled(run)
    assert reasons == [StopReason.CANCEL_REQUESTED]
    assert (run.outcome, run.code) == ("cancelled", "cancelled")


async def test_a_run_that_a_stop_interrupts_goes_on_elsewhere(bench: ScheduleBench) -> None:
    gate, attempts = Gate(), list[int]()

    async def work(context: ScheduleContext) -> None:
        attempts.append(context.attempt)
        await gate.pass_through()

    schedules, run = await bench.asked(work)
    async with bench.executing(schedules, stop_grace_seconds=0.05):
        await gate.until_reached()
    interrupted = await bench.settled(run)
    assert (interrupted.outcome, interrupted.code) == (None, "shutdown")
    gate.open.set()
    async with bench.executing(schedules):
        await bench.ended(run)
    run = await bench.settled(run)
    assert attempts == [1, 2]
    assert (run.outcome, run.code, run.attempt) == ("succeeded", None, 2)


async def test_a_run_whose_executor_was_killed_is_run_again(bench: ScheduleBench) -> None:
    causes: list[Cause] = []

    async def work(context: ScheduleContext) -> None:
        causes.append(context.cause)

    schedules, run = await bench.asked(work)
    await bench.start_due()  # by an executor that is killed
    await bench.expire_leases()
    async with bench.executing(schedules):
        await bench.ended(run)
    run = await bench.settled(run)
    assert causes == [Cause.RETRY]
    assert (run.outcome, run.code, run.attempt) == ("succeeded", None, 2)


async def test_a_run_has_units_of_work_and_reports_progress(bench: ScheduleBench) -> None:
    async def work(context: ScheduleContext) -> None:
        async with context.unit_of_work() as unit:
            unit.stage(JobSubmission.create(scope="shop", job_id=str(context.run_id), handler="mail.send"))
        await context.progress(40, "half of it")

    run = await bench.run(work)
    assert run.outcome == "succeeded"
    staged = await bench.jobs.get(str(run.run_id), "shop")
    assert staged.handler == "mail.send"
    assert (await bench.job(run)).progress_message == "half of it"


class TestRecords:
    """What is kept of a run, on the pinned clock."""

    async def fired(self, scheduled: StoredSchedules) -> Any:
        self.host = await scheduled.hosted(schedule())
        scheduled.advance(60)
        await self.host.tick()
        (run,) = await scheduled.runs()
        return run

    async def test_a_run_of_which_nothing_was_recorded_is_settled_by_its_job(
        self, scheduled: StoredSchedules
    ) -> None:
        await self.fired(scheduled)
        scheduled.advance(10)
        await scheduled.finish("lost")
        assert (await scheduled.runs())[0].outcome is None
        await self.host.tick()
        (run,) = await scheduled.runs()
        assert (run.outcome, run.code, run.ended) == ("failed", "lost", at(70))
        assert (run.attempt, run.started) == (None, None)

    async def test_a_run_whose_job_is_gone_ends_unknown(self, scheduled: StoredSchedules) -> None:
        await self.fired(scheduled)
        await scheduled.forget_jobs()
        await self.host.tick()
        (run,) = await scheduled.runs()
        assert (run.outcome, run.code, run.ended) == ("unknown", None, None)
        assert (await scheduled.state()).last_success is None

    async def test_the_last_success_is_the_latest_of_them(self, scheduled: StoredSchedules) -> None:
        await self.fired(scheduled)
        await scheduled.finish()
        await self.host.tick()
        assert (await scheduled.state()).last_success == at(60)
        scheduled.advance(60)
        await self.host.tick()
        await scheduled.finish("lost")
        await self.host.tick()
        state = await scheduled.state()
        assert (state.last_success, state.last_run and state.last_run.outcome) == (at(60), "failed")

    async def test_an_attempt_that_lost_its_lease_writes_into_no_later_one(
        self, scheduled: StoredSchedules
    ) -> None:
        run_id = (await self.fired(scheduled)).run_id
        begun, ended = scheduled.store.record_begun, scheduled.store.record_ended
        await scheduled.step(begun, run_id, attempt=1)
        scheduled.advance(5)
        await scheduled.step(begun, run_id, attempt=2)
        await scheduled.step(ended, run_id, attempt=1, code="late", detail="of the first")
        await scheduled.step(begun, run_id, attempt=1)
        (run,) = await scheduled.runs()
        assert (run.attempt, run.started, run.ended, run.code) == (2, at(65), None, None)
        await scheduled.step(ended, run_id, attempt=2, code=None, detail="of the second")
        (run,) = await scheduled.runs()
        assert (run.attempt, run.ended, run.detail) == (2, at(65), "of the second")

    async def test_nothing_is_written_into_a_run_that_is_settled(self, scheduled: StoredSchedules) -> None:
        await self.fired(scheduled)
        await scheduled.finish("lost")
        await self.host.tick()
        (before,) = await scheduled.runs()
        await scheduled.step(scheduled.store.record_begun, before.run_id, attempt=1)
        await scheduled.step(scheduled.store.record_ended, before.run_id, attempt=1)
        assert await scheduled.runs() == [before]

    async def test_the_end_of_an_attempt_is_recorded_though_its_beginning_was_not(
        self, scheduled: StoredSchedules
    ) -> None:
        run_id = (await self.fired(scheduled)).run_id
        await scheduled.step(scheduled.store.record_ended, run_id, attempt=2, code="c", detail="d")
        (run,) = await scheduled.runs()
        assert (run.attempt, run.started, run.ended, run.code, run.detail) == (2, None, at(60), "c", "d")

    async def test_the_job_has_the_last_word_about_the_code(self, scheduled: StoredSchedules) -> None:
        run_id = (await self.fired(scheduled)).run_id
        await scheduled.step(scheduled.store.record_ended, run_id, attempt=1, code="timeout?", detail="d")
        await scheduled.finish("timeout")
        await self.host.tick()
        (run,) = await scheduled.runs()
        assert (run.outcome, run.code, run.detail) == ("failed", "timeout", "d")

    async def test_a_run_that_is_retried_while_it_is_settled_stays_open(
        self, scheduled: StoredSchedules
    ) -> None:
        run_id = (await self.fired(scheduled)).run_id
        await scheduled.finish("lost")
        scheduled.advance(1)
        asked = {"actor": "ann", "reason": "now"}

        def settle(connection: Connection) -> int:
            def retry(*_: Any) -> None:
                assert scheduled.store.retry(connection, run_id, **asked) is RetryAnswer.QUEUED

            event.listen(connection, "after_cursor_execute", retry, once=True)  # what has ended was read
            return scheduled.store.settle_runs(connection)

        assert await scheduled.step(settle) == 1
        (run,) = await scheduled.runs()
        assert (run.outcome, run.staged) == (None, at(61))
        await scheduled.finish()
        await self.host.tick()
        assert [run.outcome for run in await scheduled.runs()] == ["succeeded"]


@ON_ONE_DATABASE
async def test_a_job_of_a_schedule_that_cannot_be_read_fails_and_harms_nothing(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    schedules = catalog_of(schedule())
    await bench.jobs.submit(
        JobSubmission.create(scope=SCOPE, job_id="by hand", handler=f"schedule.{NAME}", arguments={})
    )
    with caplog.at_level(logging.CRITICAL):
        async with bench.executing(schedules):

            async def failed() -> bool:
                return (await bench.jobs.get("by hand", SCOPE)).state.value == "failed"

            await eventually(failed)


def lambda_of(work: Callable[[], Awaitable[None]]) -> Work:
    """An executor that does this whatever it is given."""

    async def call(context: ScheduleContext) -> None:
        await work()

    return call
