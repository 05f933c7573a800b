"""An executor that is cancelled, or whose event loop ends, gives back what it has and leaves nothing."""

import asyncio
import contextlib
import threading

import pytest
from sqlalchemy import text

from jobs import JobContext, StopReason, ThreadJobContext
from tests.support.databases import engine_for
from tests.support.job_bench import NEVER, Bench, Gate, codes
from tests.support.jobs import submission, submissions
from tests.support.waiting import eventually
from uow import SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_jobs_that_are_claimed_while_the_executor_is_cancelled_are_queued_again(bench: Bench) -> None:
    called: list[str] = []

    @bench.registry.handler(HANDLER, requeue_interrupted=False)
    async def charge(context: JobContext) -> None:
        called.append(context.job_id)

    await bench.submit(*submissions(3))
    async with engine_for(bench.engine.url.render_as_string(hide_password=False)) as other:

        async def both_wait() -> bool:
            """The claim, and recovery."""
            async with other.connect() as connection:
                asked = "SELECT count(*) FROM pg_locks WHERE relation = 'jobs_job'::regclass AND NOT granted"
                return await connection.scalar(text(asked)) == 2

        async with other.begin() as connection:
            await connection.execute(text("LOCK TABLE jobs_job IN ACCESS EXCLUSIVE MODE"))
            running = asyncio.create_task(bench.executor().run())
            await eventually(both_wait)
            running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert called == []
    ends = await bench.ends()
    assert {(end.state, *end.attempts) for end in ends.values()} == {("queued", "interrupted")}
    assert [(await bench.get(job_id)).attempts_left for job_id in ends] == [5] * 3


@ON_ONE_DATABASE
async def test_a_cancelled_executor_stops_its_handlers_at_once(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    await bench.submit(submission())
    running = asyncio.create_task(bench.executor(stop_grace_seconds=NEVER).run())
    await gate.until_reached()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await bench.ending() == ("queued", "shutdown")
    assert (await bench.get()).attempts_left == 5


@ON_ONE_DATABASE
@pytest.mark.usefixtures("impatient")
async def test_no_thread_that_renews_leases_is_left_behind(bench: Bench) -> None:
    """Also when the end of the executor is itself cut short."""
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await gate.pass_through()
        await gate.pass_through()

    def renewing() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "lease renewal of jobs"]

    await bench.submit(submission())
    running = asyncio.create_task(bench.executor().run())
    await gate.until_reached()
    assert len(renewing()) == 1
    running.cancel()
    await gate.until_reached(2)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert renewing() == []
    gate.open.set()


async def test_when_the_event_loop_ends_under_it_no_job_is_taken_for_failed(bench: Bench) -> None:
    """As `asyncio.run` does it, which cancels all tasks at once."""
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    @bench.registry.handler("book", transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await gate.pass_through()

    @bench.registry.handler("build")
    def build(context: ThreadJobContext) -> None:
        context.wait(NEVER)

    @bench.registry.handler("charge", requeue_interrupted=False)
    async def charge(context: JobContext) -> None:
        await gate.pass_through()

    handlers = (HANDLER, "book", "build", "charge")
    await bench.submit(*(submission(handler, handler=handler) for handler in handlers))
    executor = bench.executor()
    running = asyncio.create_task(executor.run())
    await gate.until_reached(3)
    await eventually(lambda: len(executor.running) == 4)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert running in others
    for task in others:
        task.cancel()
    await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 20)
    ends = await bench.ends()
    assert [ends[handler].state for handler in handlers] == ["queued", "queued", "queued", "interrupted"]
    assert {end.code for end in ends.values()} <= {"shutdown", "interrupted"}


@ON_ONE_DATABASE
async def test_a_handler_whose_task_someone_else_cancels_is_interrupted_and_that_counts(bench: Bench) -> None:
    begun = Gate()
    loop = asyncio.get_running_loop()
    reasons: list[StopReason | None] = []

    @bench.registry.handler("build")
    def build(context: ThreadJobContext) -> str:
        loop.call_soon_threadsafe(begun.reached.append, "")
        if context.attempt == 1:
            context.wait(NEVER)
            reasons.append(context.stop_reason)
        return f"{context.attempt}, {context.attempts_left} left"

    await bench.submit(submission(handler="build", max_attempts=2))
    async with bench.executing():
        await begun.until_reached()
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "job build"]
        task.cancel()
        await bench.over()
        await eventually(lambda: reasons)
    assert reasons == [StopReason.SHUTDOWN]
    assert codes(await bench.attempts()) == [("interrupted", "interrupted"), ("succeeded", None)]
    assert (await bench.get()).result_reference == "2, 0 left"
