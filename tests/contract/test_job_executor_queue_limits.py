"""A queue with a limit runs no more jobs at once in all executors together, and is not slowed by polls."""

import asyncio
import contextlib
from datetime import timedelta

import pytest
from sqlalchemy import Connection, func, select

from jobs import JobContext
from jobs.execution.claim import Claimer
from jobs.execution.queue_shares import QueueShare
from tests.support.blocking import someone_waits
from tests.support.databases import engine_for
from tests.support.job_bench import NEVER, Bench, Gate
from tests.support.job_shop import leases
from tests.support.jobs import SEVERAL_WRITERS, START, ids, submission, submissions
from uow.sql.clock import PinnedClock
from uow.sql.lease import LeaseStore

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"
LIMIT = 3


async def test_two_executors_never_exceed_it_and_use_it_up(bench: Bench) -> None:
    gate, seen = Gate(), set[int]()
    gate.open.set()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through(context.job_id)

    job = bench.jobs.tables.job
    running = select(func.count()).select_from(job).where(job.c.state == "running")

    async def observe() -> None:
        observer = bench.engine.execution_options(sqlite_begin="DEFERRED")
        async with observer.connect() as connection:
            while True:
                seen.add((await connection.execute(running)).scalar_one())
                await connection.rollback()
                await asyncio.sleep(0.001)

    await bench.submit(*submissions(80))
    async with engine_for(bench.engine.url.render_as_string(hide_password=False)) as engine:
        other = Bench(engine)
        other.registry, other.signal = bench.registry, bench.signal
        executors = [each.executor(queue_limits={"default": LIMIT}) for each in (bench, other)]
        watching = asyncio.create_task(observe())
        async with bench.executing(*executors):
            await bench.over()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    assert max(seen) == LIMIT
    assert gate.most_inside <= LIMIT
    assert sorted(gate.reached) == sorted(job.key.job_id for job in submissions(80))
    owners = {row["owner"] for row in (await bench.jobs.rows())["jobs_attempt"]}
    assert len(owners) == 2, "both took some"


@pytest.mark.usefixtures("no_polling")
async def test_the_end_of_a_job_lets_any_executor_take_the_next_one(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await asyncio.sleep(0)

    await bench.submit(*submissions(20))
    limited = {"queue_limits": {"default": 1}, "poll_interval_seconds": NEVER}
    async with bench.executing(*(bench.executor(**limited) for _ in range(2))):
        await bench.over()
    assert {end.state for end in (await bench.ends()).values()} == {"succeeded"}


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling", "impatient")
async def test_a_handler_that_is_given_up_makes_room_too(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER, timeout_seconds=0.05)
    async def ignore(context: JobContext) -> None:
        while not gate.open.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.pass_through()

    @bench.registry.handler("quick")
    async def quick(context: JobContext) -> None:
        pass

    await bench.submit(submission(priority=1), submission("next", handler="quick"))
    async with bench.executing(queue_limits={"default": 1}, poll_interval_seconds=NEVER):
        await bench.until("succeeded", "next")
        gate.open.set()


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling")
async def test_other_queues_go_on_while_one_is_full(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    @bench.registry.handler("quick")
    async def quick(context: JobContext) -> None:
        pass

    full = submissions(5, queue="reports", priority=9)
    await bench.submit(*full, *submissions(20, prefix="q", handler="quick"))
    queues = {"queues": ("reports", "default"), "queue_limits": {"reports": 1}}
    async with bench.executing(concurrency=4, poll_interval_seconds=NEVER, **queues):
        await gate.until_reached()
        for number in range(20):
            await bench.until("succeeded", f"q{number:05d}")
        assert gate.inside == 1
        gate.open.set()
        await bench.over()
    assert gate.most_inside == 1


@ON_ONE_DATABASE
async def test_it_holds_within_one_executor_beside_the_limit_of_that(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    await bench.submit(*submissions(6))
    both = {"queue_limits": {"default": 4}, "queue_concurrency": {"default": 2}}
    async with bench.executing(**both):
        await gate.until_reached(2)
        gate.open.set()
        await bench.over()
    assert gate.most_inside == 2


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
async def test_of_two_that_claim_at_the_same_moment_the_second_takes_what_the_first_has_left(
    bench: Bench,
) -> None:
    """It waits for the first, although it began a moment earlier by the clock of the database."""
    share = QueueShare(queues=("default",), limit=2, limit_everywhere=3)
    claimers = [
        Claimer(
            store=bench.jobs.store,
            leases=LeaseStore(leases, clock=PinnedClock(START + timedelta(seconds=seconds))),
            owner=owner,
            handlers=[(HANDLER, 1)],
            put_off_seconds=30,
        )
        for owner, seconds in (("one", 1), ("two", 0))
    ]

    def claim(connection: Connection, number: int) -> list[str]:
        return ids(claimers[number].claim(connection, share))

    await bench.jobs.step(claim, 0)  # the row of the queue is made by the first claim
    await bench.submit(*submissions(5))
    async with bench.engine.connect() as connection:
        await connection.begin()
        assert len(await connection.run_sync(claim, 0)) == 2
        second = asyncio.create_task(bench.jobs.step(claim, 1))
        await someone_waits(bench.engine)
        await connection.commit()
        assert len(await second) == 1
