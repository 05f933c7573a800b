"""New work ends the wait of an idle executor, which no poll would have ended."""

import pytest

from jobs import JobContext, JobExecutor, Jobs
from tests.support.job_bench import NEVER, Bench
from tests.support.jobs import SCOPE, submission
from tests.support.waiting import eventually

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

pytestmark = [
    pytest.mark.usefixtures("no_polling"),
    pytest.mark.parametrize("database_kind", ["sqlite"]),
]
HANDLER = "invoices.render"
UNWOKEN = {"poll_interval_seconds": NEVER}


async def idle(executor: JobExecutor) -> None:
    """Wait until it has looked for work once."""
    await eventually(lambda: executor.health[0].last_tick)


async def test_a_submitted_job(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    client = Jobs(bench.sessions, bench.jobs.store, on_committed=bench.wake)
    async with bench.executing(**UNWOKEN) as executor:
        await idle(executor)
        await client.submit(submission("a"))
        await bench.until("succeeded", "a")
        await client.submit_many([submission("b"), submission("c")])
        await bench.over()


async def test_a_staged_job(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    @bench.registry.handler("book", transactional=True)
    async def book(context: JobContext, unit: object) -> None:
        unit.stage(submission("follow-up"))  # type: ignore[attr-defined]

    async with bench.executing(**UNWOKEN) as executor:
        await idle(executor)
        async with bench.unit() as unit:
            unit.stage(submission("a"))
        await bench.until("succeeded", "a")
        async with bench.unit() as unit:
            unit.stage(submission("b", handler="book"))
        await bench.until("succeeded", "b")
        await bench.until("succeeded", "follow-up")


async def test_a_job_that_is_tried_again(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        if context.attempt == 1:
            raise ValueError

    client = Jobs(bench.sessions, bench.jobs.store, on_committed=bench.wake)
    await client.submit(submission())
    async with bench.executing(**UNWOKEN):
        await bench.until("failed")
        await client.retry(SCOPE, "j")
        await bench.until("succeeded")
