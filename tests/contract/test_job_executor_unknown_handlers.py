"""A job whose handler an executor does not have stays queued for one that has it, uncharged, and is told."""

import pytest

from jobs import JobContext, JobRegistry
from tests.support.job_bench import Bench
from tests.support.jobs import submission, submissions
from tests.support.telemetry import recorded_telemetry
from tests.support.waiting import eventually

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"


async def test_it_is_put_off_uncharged_counted_and_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(submission("name", handler="unheard-of"), submission("version", version=2))
    await bench.submit(*submissions(3, handler="unheard-of"), submission())
    with recorded_telemetry() as recording:
        async with bench.executing(unknown_handler_seconds=60):
            await bench.until("succeeded")
            await eventually(lambda: bench.all_put_off(5))
        points = recording.points()
    for job_id in ("name", "version"):
        job = await bench.get(job_id)
        assert (job.state, job.attempt_count, job.attempts_left) == ("queued", 0, 5)
        assert 55 <= (job.next_run.ticks - job.created.ticks) / 10_000_000 <= 120
    counted = {
        point.attributes["handler"]: point.value
        for point in points
        if point.attributes.get("outcome") == "unknown_handler" and point.metric == "jobs.operations"
    }
    assert counted == {"unheard-of": 4, HANDLER: 1}
    told = [record.getMessage() for record in caplog.records if "does not have" in record.getMessage()]
    assert len(told) == 2
    assert any("handler unheard-of, version 1," in line for line in told)
    assert any(f"handler {HANDLER}, version 2," in line for line in told)


async def test_an_executor_that_has_it_runs_it(bench: Bench) -> None:
    other = JobRegistry()

    @other.handler("unheard-of")
    async def hear(context: JobContext) -> str:
        return f"heard at {context.attempt}"

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(submission(handler="unheard-of"))
    async with bench.executing(unknown_handler_seconds=0.05):
        await eventually(lambda: bench.all_put_off(1))
        async with bench.executing(bench.executor(other)):
            await bench.over()
    assert await bench.states() == ("succeeded", ["succeeded"])
    assert (await bench.get()).result_reference == "heard at 1"


@ON_ONE_DATABASE
async def test_many_of_them_do_not_hold_up_the_others(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(*submissions(300, prefix="u", handler="unheard-of", priority=9), submission())
    async with bench.executing(concurrency=4):
        await bench.until("succeeded")


@ON_ONE_DATABASE
async def test_an_executor_without_any_handler_puts_all_off(bench: Bench) -> None:
    await bench.submit(submission())
    async with bench.executing():
        await eventually(lambda: bench.all_put_off(1))
    assert await bench.states() == ("queued", [])
