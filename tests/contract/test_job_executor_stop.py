"""A stop settles what has ended, gives handlers a grace period, and queues the jobs of the others again."""

import asyncio
import contextlib
import threading

import pytest

from jobs import JobContext, StopReason, ThreadJobContext
from tests.support.job_bench import NEVER, Bench, Gate, codes
from tests.support.jobs import submission, submissions
from tests.support.waiting import eventually
from uow import SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"
SOON = 0.05


async def test_a_handler_that_ends_within_the_grace_period_is_settled(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        await gate.pass_through()
        return "s3://a"

    await bench.submit(submission())
    async with bench.executing(stop_grace_seconds=NEVER) as executor:
        await gate.until_reached()
        executor.stop()
        await bench.submit(submission("late"))
        gate.open.set()
    assert await bench.states() == ("succeeded", ["succeeded"])
    assert await bench.states("late") == ("queued", [])


async def test_after_the_grace_period_a_handler_is_cancelled_and_its_job_is_queued_with_all_its_attempts(
    bench: Bench,
) -> None:
    gate = Gate()
    reasons: list[StopReason | None] = []

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        if context.attempt == 1:
            try:
                await gate.pass_through()
            finally:
                reasons.append(context.stop_reason)
        return f"{context.attempt}, {context.attempts_left} left"

    await bench.submit(submission(max_attempts=1))
    async with bench.executing(stop_grace_seconds=SOON):
        await gate.until_reached()
    assert reasons == [StopReason.SHUTDOWN]
    job = await bench.get()
    assert (job.state, job.attempts_left) == ("queued", 1)
    assert codes(await bench.attempts()) == [("interrupted", "shutdown")]
    await bench.run()
    assert (await bench.get()).result_reference == "2, 0 left"


async def test_a_handler_that_may_not_run_twice_leaves_its_job_interrupted(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER, requeue_interrupted=False)
    async def charge(context: JobContext) -> None:
        await gate.pass_through()

    await bench.submit(submission())
    async with bench.executing(stop_grace_seconds=SOON):
        await gate.until_reached()
    assert await bench.states() == ("interrupted", ["interrupted"])
    assert (await bench.get()).error_code == "shutdown"


@ON_ONE_DATABASE
async def test_jobs_whose_handlers_were_never_called_are_queued_again_in_any_case(bench: Bench) -> None:
    """They wait for their turn to write."""
    gate = Gate()

    @bench.registry.handler(HANDLER, transactional=True, requeue_interrupted=False)
    async def charge(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await gate.pass_through(context.job_id)

    await bench.submit(*submissions(5))
    async with bench.executing(stop_grace_seconds=SOON) as executor:
        await gate.until_reached()
        await eventually(lambda: len(executor.running) == 5)
    ends = await bench.ends()
    assert ends.pop(gate.reached[0])[:2] == ("interrupted", "shutdown")
    assert {(end.state, *end.attempts) for end in ends.values()} == {("queued", "interrupted")}
    assert [(await bench.get(each)).attempts_left for each in ends] == [5] * 4


@pytest.mark.usefixtures("impatient")
async def test_an_executor_ends_although_its_handlers_ignore_everything(bench: Bench) -> None:
    gate, release = Gate(), threading.Event()
    loop = asyncio.get_running_loop()
    later: list[str] = []

    async def ignore() -> None:
        while not gate.open.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.pass_through()

    @bench.registry.handler("plain")
    async def plain(context: JobContext) -> str:
        await ignore()
        later.append("plain")
        return "s3://a"

    @bench.registry.handler("transactional", transactional=True)
    async def transactional(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await ignore()
        await bench.write(unit)
        later.append("transactional")

    @bench.registry.handler("thread", requeue_interrupted=False)
    def thread(context: ThreadJobContext) -> str:
        loop.call_soon_threadsafe(gate.reached.append, "thread")
        release.wait(20)
        loop.call_soon_threadsafe(later.append, "thread")
        return "s3://a"

    kinds = ("plain", "thread", "transactional")
    await bench.submit(*(submission(kind, handler=kind) for kind in kinds))
    async with bench.executing(stop_grace_seconds=SOON) as executor:
        await gate.until_reached(3)
    assert not executor.running
    before = await bench.jobs.rows()
    assert [await bench.ending(kind) for kind in kinds] == [
        ("queued", "shutdown"),
        ("interrupted", "shutdown"),
        ("queued", "shutdown"),
    ]
    gate.open.set()
    release.set()
    await eventually(lambda: not executor._unrecorded)
    assert sorted(later) == sorted(kinds)
    assert await bench.jobs.rows() == before
    assert await bench.counts() == (0, 0, 3)


@ON_ONE_DATABASE
async def test_a_thread_hears_of_the_stop(bench: Bench) -> None:
    gate = Gate()
    loop = asyncio.get_running_loop()
    reasons: list[StopReason | None] = []

    @bench.registry.handler(HANDLER)
    def build(context: ThreadJobContext) -> None:
        loop.call_soon_threadsafe(gate.reached.append, "")
        context.wait(NEVER)
        reasons.append(context.stop_reason)
        context.raise_if_stopped()

    await bench.submit(submission())
    async with bench.executing(stop_grace_seconds=SOON):
        await gate.until_reached()
    assert reasons == [StopReason.SHUTDOWN]
    assert await bench.ending() == ("queued", "shutdown")


@ON_ONE_DATABASE
async def test_a_success_in_spite_of_the_stop_is_a_success(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await gate.pass_through()
        return "s3://a"

    await bench.submit(submission())
    async with bench.executing(stop_grace_seconds=SOON):
        await gate.until_reached()
    assert await bench.states() == ("succeeded", ["succeeded"])


@ON_ONE_DATABASE
async def test_an_executor_that_was_stopped_before_it_began_claims_nothing(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(submission())
    executor = bench.executor()
    executor.stop()
    executor.stop()
    await asyncio.wait_for(executor.run(), 20)
    assert await bench.states() == ("queued", [])
