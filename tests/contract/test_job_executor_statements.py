"""A batch of jobs is claimed and settled in the same number of statements, however many there are."""

from collections import Counter

from jobs import JobContext
from tests.support.databases import engine_for
from tests.support.job_bench import NEVER, Bench
from tests.support.jobs import submissions
from tests.support.statements import recorded_statements
from tests.support.waiting import eventually

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

EXPECTED = {"postgresql": 3, "sqlite": 6, "mariadb": 7}
"""The claim, the settlement, and a claim that finds nothing."""


async def test_a_batch_costs_the_statements_of_one_job(
    bench: Bench, database_kind: str, rounds: Counter[str]
) -> None:
    @bench.registry.handler("invoices.render")
    async def render(context: JobContext) -> None:
        pass

    numbers = []
    async with engine_for(bench.engine.url.render_as_string(hide_password=False)) as engine:
        executor_side = Bench(engine)
        executor_side.registry, executor_side.signal = bench.registry, bench.signal
        options = {"concurrency": 300, "poll_interval_seconds": NEVER, "status_poll_seconds": NEVER}
        await bench.submit(*submissions(200, prefix="first"))
        async with executor_side.executing(**options):
            await bench.over()  # from now on it claims as many as it may
            await eventually(lambda: rounds["claiming of jobs"] == 4 and rounds["recovery of jobs"] == 1)
            for count in (1, 50, 200):
                rounds.clear()
                with recorded_statements(engine) as statements:
                    await bench.submit(*submissions(count, prefix=f"{count}-"))
                    await bench.over()
                    await eventually(lambda: rounds["claiming of jobs"] == 2)
                numbers.append(len(statements))
    assert numbers == [EXPECTED[database_kind]] * 3
