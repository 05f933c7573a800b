"""A handler that takes too long fails, and one that goes on all the same is given up."""

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from jobs import JobContext, ProgressAnswer, RetryPolicy, StopReason, ThreadJobContext
from tests.support.job_bench import NEVER, Bench, Gate
from tests.support.jobs import submission
from tests.support.telemetry import recorded_telemetry
from tests.support.waiting import eventually
from uow import SelfManagedUnitOfWork
from uow.backoff import Backoff

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"
SOON = 0.05


async def test_a_handler_is_cancelled_at_its_timeout_and_has_failed(bench: Bench) -> None:
    reasons: list[StopReason | None] = []

    @bench.registry.handler(HANDLER, timeout_seconds=SOON)
    async def render(context: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            reasons.append(context.stop_reason)
            raise

    await bench.run(submission())
    assert reasons == [StopReason.TIMEOUT]
    assert await bench.states() == ("failed", ["failed"])
    job = await bench.get()
    assert job.error_code == "timeout"
    assert job.error_detail == "jobs.execution.errors.JobTimeoutError: the handler took longer than 0.05 s"


async def test_a_transactional_handler_that_takes_too_long_commits_nothing(bench: Bench) -> None:
    @bench.registry.handler(HANDLER, transactional=True, timeout_seconds=SOON)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await bench.write(unit)
        await unit.session.flush()
        await asyncio.Event().wait()

    @bench.registry.handler("blocking", transactional=True, timeout_seconds=SOON)
    async def block(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await bench.write(unit, 2)
        time.sleep(2 * SOON)  # nobody can cancel it

    @bench.registry.handler("swallowing", transactional=True, timeout_seconds=SOON)
    async def swallow(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await bench.write(unit, 3)
        return "ledger/3"

    handlers = (HANDLER, "blocking", "swallowing")
    await bench.run(*(submission(handler, handler=handler) for handler in handlers))
    assert await bench.counts() == (0, 0, 3)
    assert [await bench.ending(handler) for handler in handlers] == [("failed", "timeout")] * 3


async def test_a_thread_hears_of_its_timeout_and_has_failed_whatever_it_returns(bench: Bench) -> None:
    reasons: list[StopReason | None] = []

    @bench.registry.handler(HANDLER, timeout_seconds=SOON)
    def build(context: ThreadJobContext) -> str:
        context.wait(NEVER)
        reasons.append(context.stop_reason)
        return "s3://a"

    await bench.run(submission())
    assert reasons == [StopReason.TIMEOUT]
    assert await bench.ending() == ("failed", "timeout")
    assert (await bench.get()).result_reference is None


@ON_ONE_DATABASE
async def test_a_handler_that_blocked_the_event_loop_too_long_has_failed(bench: Bench) -> None:
    @bench.registry.handler(HANDLER, timeout_seconds=SOON)
    async def render(context: JobContext) -> str:
        time.sleep(2 * SOON)
        return "s3://a"

    await bench.run(submission())
    assert await bench.ending() == ("failed", "timeout")


@ON_ONE_DATABASE
async def test_a_timeout_is_a_timeout_error_to_a_retry_policy(bench: Bench) -> None:
    policy = RetryPolicy(on=(TimeoutError,), backoff=Backoff(initial_seconds=0.001))

    @bench.registry.handler(HANDLER, timeout_seconds=SOON, retry=policy)
    async def render(context: JobContext) -> str:
        if context.attempt == 1:
            await asyncio.Event().wait()
        return "s3://a"

    await bench.run(submission())
    assert await bench.states() == ("succeeded", ["failed", "succeeded"])


@ON_ONE_DATABASE
async def test_what_a_handler_raises_after_its_timeout_is_logged_but_is_no_verdict(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.registry.handler(HANDLER, timeout_seconds=SOON)
    async def render(context: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("could not clean up")

    await bench.run(submission())
    assert await bench.ending() == ("failed", "timeout")
    (line,) = [record.getMessage() for record in caplog.records if "failed (timeout)" in record.getMessage()]
    assert 'raise ValueError("could not clean up")' in line


@pytest.mark.usefixtures("impatient")
class TestGivenUp:
    async def test_a_handler_that_ignores_its_timeout_frees_its_slot_and_is_recorded_once(
        self, bench: Bench
    ) -> None:
        gate = Gate()
        later: list[ProgressAnswer] = []

        @bench.registry.handler(HANDLER, timeout_seconds=SOON)
        async def ignore(context: JobContext) -> str:
            while not gate.open.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await gate.pass_through()
            later.append(await context.progress(99))
            return "s3://a"

        @bench.registry.handler("quick")
        async def quick(context: JobContext) -> None:
            pass

        await bench.submit(submission(priority=1), submission("next", handler="quick"))
        with recorded_telemetry() as recording:
            async with bench.executing(concurrency=1):
                await bench.until("succeeded", "next")
                assert await bench.ending() == ("failed", "timeout")
                before = await bench.jobs.rows()
                gate.open.set()
                await eventually(lambda: later)
                await eventually(lambda: len(recording.spans()) == 2)
                assert await bench.jobs.rows() == before
            points = recording.points()
        assert later == [ProgressAnswer.FENCED]
        outcomes = [
            (point.attributes["handler"], point.attributes["outcome"], point.value)
            for point in points
            if point.metric == "jobs.operations"
        ]
        assert sorted(outcomes) == [(HANDLER, "failed", 1), ("quick", "succeeded", 1)]

    async def test_what_a_transactional_handler_that_was_given_up_writes_later_is_not_kept(
        self, bench: Bench
    ) -> None:
        gate, ended = Gate(), asyncio.Event()

        @bench.registry.handler(HANDLER, transactional=True, timeout_seconds=SOON)
        async def ignore(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
            while not gate.open.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await gate.pass_through()
            await bench.write(unit)
            ended.set()
            return "ledger/1"

        await bench.submit(submission())
        async with bench.executing() as executor:
            await bench.until("failed")
            tasks = [run.task for run in executor._unrecorded]
            gate.open.set()
            await eventually(lambda: all(task is not None and task.done() for task in tasks))
        assert ended.is_set()
        assert len(tasks) == 1
        assert await bench.counts() == (0, 0, 1)
        assert await bench.states() == ("failed", ["failed"])

    @ON_ONE_DATABASE
    async def test_a_thread_that_ignores_its_timeout_is_given_up(self, bench: Bench) -> None:
        release = threading.Event()
        answers: list[Any] = []

        @bench.registry.handler(HANDLER, timeout_seconds=SOON)
        def ignore(context: ThreadJobContext) -> str:
            release.wait(20)
            answers.append(context.progress(99))
            return "s3://a"

        @bench.registry.handler("quick")
        def quick(context: ThreadJobContext) -> None:
            pass

        await bench.submit(submission(priority=1), submission("next", handler="quick"))
        async with bench.executing(concurrency=1):
            await bench.until("succeeded", "next")
            assert await bench.ending() == ("failed", "timeout")
            release.set()
            await eventually(lambda: answers)
        assert answers == [ProgressAnswer.FENCED]
        assert await bench.states() == ("failed", ["failed"])

    @ON_ONE_DATABASE
    async def test_an_executor_stops_although_a_handler_that_was_given_up_goes_on(self, bench: Bench) -> None:
        gate = Gate()

        @bench.registry.handler(HANDLER, timeout_seconds=SOON)
        async def ignore(context: JobContext) -> None:
            while not gate.open.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await gate.pass_through()

        await bench.submit(submission())
        async with bench.executing() as executor:
            await bench.until("failed")
            await eventually(lambda: not executor.running)
        assert gate.inside == 1
        gate.open.set()
        await eventually(lambda: not executor._unrecorded)

    @ON_ONE_DATABASE
    async def test_a_handler_that_was_given_up_ends_its_turn_on_a_single_writer(self, bench: Bench) -> None:
        gate = Gate()

        @bench.registry.handler(HANDLER, transactional=True, timeout_seconds=SOON)
        async def ignore(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
            while not gate.open.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await gate.pass_through()

        @bench.registry.handler("book", transactional=True)
        async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
            await bench.write(unit)

        await bench.submit(submission(priority=1), submission("next", handler="book"))
        async with bench.executing() as executor:
            await bench.until("succeeded", "next")
            gate.open.set()
            await eventually(lambda: not executor._unrecorded)
        assert await bench.counts() == (1, 1, 2)
