"""On SQLite, where one transaction writes at a time, transactional handlers take turns and cost no leases."""

import asyncio

import pytest

from jobs import JobContext
from tests.support.job_bench import Bench
from tests.support.jobs import submissions
from uow import SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite"])


async def test_handlers_that_follow_one_another_closely_lose_no_lease(bench: Bench) -> None:
    """Each of them holds the write lock nearly all of the time, and all together longer than a lease."""
    quick = bench.with_lease(5.0)

    @quick.registry.handler("book", transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await quick.write(unit, int(context.job_id[1:]))
        await unit.session.flush()
        await asyncio.sleep(0.17)

    await quick.run(*submissions(35, handler="book"), concurrency=35)
    ends = await quick.ends()
    assert {(end.state, *end.attempts) for end in ends.values()} == {("succeeded", "succeeded")}
    assert await quick.counts() == (35, 35, 35)
