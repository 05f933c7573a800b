"""A handler hears that its job is to be cancelled, is given time to clean up, and the store decides."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jobs import (
    AttemptStoppedError,
    JobContext,
    ProgressAnswer,
    RetryPolicy,
    StopReason,
    ThreadJobContext,
)
from tests.support.job_bench import NEVER, Bench, Gate
from tests.support.jobs import submission, submissions
from tests.support.telemetry import recorded_telemetry
from tests.support.waiting import eventually
from uow import SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"


async def test_a_handler_is_cancelled_and_its_cleaning_up_is_awaited(bench: Bench) -> None:
    gate, cleaning = Gate(), Gate()
    reasons: list[StopReason | None] = []

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            reasons.append(context.stop_reason)
            await cleaning.pass_through()
            raise
        return "s3://a"

    await bench.submit(submission())
    async with bench.executing() as executor:
        await gate.until_reached()
        await bench.cancel()
        await cleaning.until_reached()
        assert await bench.states() == ("running", ["running"])
        assert len(executor.running) == 1
        cleaning.open.set()
        await bench.until("cancelled")
        await eventually(lambda: not executor.running)
    assert reasons == [StopReason.CANCEL_REQUESTED]
    assert await bench.states() == ("cancelled", ["cancelled"])
    assert await bench.ending() == ("cancelled", "cancelled")


async def test_a_handler_that_ignores_it_and_succeeds_is_cancelled_all_the_same(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "s3://a"

    await bench.submit(submission())
    async with bench.executing():
        await gate.until_reached()
        await bench.cancel()
        await bench.until("cancelled")
    assert await bench.states() == ("cancelled", ["cancelled"])
    assert (await bench.get()).result_reference is None


async def test_a_success_that_came_first_stays(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        return "s3://a"

    await bench.run(submission())
    await bench.cancel()
    assert await bench.states() == ("succeeded", ["succeeded"])
    assert (await bench.get()).result_reference == "s3://a"


async def test_a_job_that_fails_after_its_cancellation_is_cancelled_and_not_retried(bench: Bench) -> None:
    @bench.registry.handler(HANDLER, retry=RetryPolicy())
    async def render(context: JobContext) -> None:
        await bench.cancel()
        raise ValueError("no paper")

    await bench.run(submission(), status_poll_seconds=NEVER)
    assert await bench.states() == ("cancelled", ["cancelled"])


async def test_progress_tells_a_handler_of_it_before_any_poll(bench: Bench) -> None:
    answers: list[ProgressAnswer] = []
    reached: list[str] = []

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await bench.cancel()
        answers.append(await context.progress(50))
        assert context.stop_reason is StopReason.CANCEL_REQUESTED
        await asyncio.sleep(0)
        reached.append("after the next await")

    await bench.run(submission(), status_poll_seconds=NEVER)
    assert (answers, reached) == ([ProgressAnswer.CANCEL_REQUESTED], [])
    assert await bench.states() == ("cancelled", ["cancelled"])


async def test_a_transactional_handler_that_is_cancelled_writes_nothing(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await gate.pass_through()
        await bench.write(unit)

    await bench.submit(submission())
    async with bench.executing():
        await gate.until_reached()
        await bench.cancel()
        await bench.until("cancelled")
    assert await bench.counts() == (0, 0, 1)


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
async def test_a_transactional_handler_that_has_written_is_rolled_back(bench: Bench) -> None:
    """On SQLite nobody can ask for it while the handler holds the one write lock."""
    gate = Gate()

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await bench.write(unit)
        await unit.session.flush()
        await gate.pass_through()

    await bench.submit(submission())
    async with bench.executing():
        await gate.until_reached()
        await bench.cancel()
        await bench.until("cancelled")
    assert await bench.counts() == (0, 0, 1)


@pytest.mark.parametrize("way", ["stop_reason", "wait", "raise_if_stopped", "progress"])
@ON_ONE_DATABASE
async def test_a_thread_hears_of_it(bench: Bench, way: str) -> None:
    gate = Gate()
    loop = asyncio.get_running_loop()
    heard: list[Any] = []

    @bench.registry.handler(HANDLER)
    def build(context: ThreadJobContext) -> str:
        loop.call_soon_threadsafe(gate.reached.append, "")
        match way:
            case "stop_reason":
                while context.stop_reason is None:
                    context.wait(0.001)
            case "wait":
                assert context.wait(NEVER)
                assert context.wait(NEVER)
            case "raise_if_stopped":
                try:
                    while not context.wait(0.001):
                        context.raise_if_stopped()
                    context.raise_if_stopped()
                except AttemptStoppedError as error:
                    heard.append(error.reason)
                    raise
            case _:
                while context.progress(50) is ProgressAnswer.RECORDED:
                    context.wait(0.001)
        heard.append(context.stop_reason)
        return "s3://a"

    await bench.submit(submission())
    async with bench.executing():
        await gate.until_reached()
        await bench.cancel()
        await bench.until("cancelled")
    assert heard == [StopReason.CANCEL_REQUESTED]


async def at_once(context: JobContext) -> None:
    """The request is the last thing the handler learns: it awaits nothing any more."""


async def swallowed(context: JobContext) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def swallowed_in_a_group(context: JobContext) -> None:
    async def child() -> None:
        await asyncio.Event().wait()

    with contextlib.suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as group:
            group.create_task(child())


async def swallowed_in_a_timeout(context: JobContext) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        async with asyncio.timeout(NEVER):
            await asyncio.Event().wait()


async def forgotten(context: JobContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


@ON_ONE_DATABASE
@pytest.mark.parametrize(
    "then", [at_once, swallowed, swallowed_in_a_group, swallowed_in_a_timeout, forgotten]
)
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
async def test_a_cancellation_of_the_handler_cancels_nothing_that_the_executor_awaits_afterwards(
    bench: Bench, then: Callable[[JobContext], Awaitable[None]], fails: bool
) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await bench.cancel()
        assert await context.progress(50) is ProgressAnswer.CANCEL_REQUESTED
        await then(context)
        if fails:
            raise ValueError("no paper")

    with recorded_telemetry() as recording:
        await bench.run(submission(), status_poll_seconds=NEVER)
        await eventually(recording.spans)
        points = recording.points()
    assert await bench.states() == ("cancelled", ["cancelled"])
    counted = [point for point in points if point.metric == "jobs.operations"]
    assert [(point.attributes["outcome"], point.value) for point in counted] == [("cancelled", 1)]


@ON_ONE_DATABASE
async def test_one_cancellation_among_many_jobs_stops_that_one_alone(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through(context.job_id)

    await bench.submit(*submissions(10))
    async with bench.executing():
        await gate.until_reached(10)
        await bench.cancel("j00003")
        await bench.until("cancelled", "j00003")
        assert gate.inside == 9
        gate.open.set()
        await bench.over()
    states = [end.state for end in (await bench.ends()).values()]
    assert (states.count("succeeded"), states.count("cancelled")) == (9, 1)


@ON_ONE_DATABASE
async def test_a_cancellation_is_heard_during_the_grace_period_of_a_stop(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    await bench.submit(submission())
    async with bench.executing(stop_grace_seconds=NEVER) as executor:
        await gate.until_reached()
        executor.stop()
        await bench.cancel()
        await bench.until("cancelled")
