"""The jobs of executors that have died come back, at the start of another one and while it runs."""

import pytest

from jobs import JobContext, JobRegistry
from jobs.execution.attempt_run import AttemptRun
from jobs.execution.ending import Ending
from jobs.execution.runner import AttemptRunner
from tests.support.job_bench import NEVER, Bench, Gate, codes
from tests.support.jobs import submission, submissions
from tests.support.telemetry import recorded_telemetry
from uow.telemetry import JobOutcome

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"


async def test_at_the_start_each_comes_back_as_its_handler_allows(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        return f"s3://{context.attempt}"

    @bench.registry.handler("charge", requeue_interrupted=False)
    async def charge(context: JobContext) -> None:
        raise AssertionError("it must not run twice")

    await bench.submit(
        submission("again"),
        submission("once", handler="charge"),
        submission("last", max_attempts=1),
        submission("cancelled"),
    )
    await bench.lost_with_their_executor(4)
    await bench.cancel("cancelled")
    with recorded_telemetry() as recording:
        async with bench.executing():
            await bench.over()
        points = recording.points()
    assert codes(await bench.attempts("again")) == [("interrupted", "lease_expired"), ("succeeded", None)]
    assert (await bench.get("again")).result_reference == "s3://2"
    assert codes(await bench.attempts("once")) == [("interrupted", "lease_expired")]
    assert (await bench.get("once")).state == "interrupted"
    assert await bench.states("last") == ("interrupted", ["interrupted"])
    assert await bench.states("cancelled") == ("cancelled", ["cancelled"])
    recovered = {
        point.attributes["handler"]: point.value
        for point in points
        if point.metric == "jobs.operations" and point.attributes["outcome"] == "recovered"
    }
    assert recovered == {HANDLER: 3, "charge": 1}
    told = [each.getMessage() for each in caplog.records if "was lost with its executor" in each.getMessage()]
    assert len(told) == 4
    assert any("job again, attempt 1 of invoices.render" in line and "queued" in line for line in told)


async def test_while_it_runs_an_executor_recovers_what_others_lose(bench: Bench) -> None:
    quick = bench.with_lease(1.0)

    @quick.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    async with quick.executing(queues=("default",)):
        await quick.submit(submission("first"))
        await quick.until("succeeded", "first")
        await quick.submit(submission(queue="other"))
        await quick.lost_with_their_executor(1, queue="other")
        await quick.until_attempt_ended()
    assert await quick.states() == ("queued", ["interrupted"])
    assert (await quick.get()).attempts_left == 4


async def test_attempts_of_handlers_that_are_not_here_are_left_to_those_who_have_them(bench: Bench) -> None:
    other = JobRegistry()

    @other.handler("unheard-of", requeue_interrupted=True)
    async def hear(context: JobContext) -> str:
        return f"heard at {context.attempt}"

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(submission("theirs", handler="unheard-of"), submission("version", version=2))
    await bench.submit(submission("last", handler="unheard-of", max_attempts=1), submission("ours"))
    await bench.submit(submission("cancelled", handler="unheard-of"))
    await bench.lost_with_their_executor(5)
    await bench.cancel("cancelled")
    async with bench.executing(unknown_handler_seconds=0.05):
        await bench.until("succeeded", "ours")
        assert await bench.states("theirs") == ("running", ["running"])
        assert await bench.states("version") == ("running", ["running"])
        # What becomes of these is no question of their handler.
        assert await bench.states("last") == ("interrupted", ["interrupted"])
        assert await bench.states("cancelled") == ("cancelled", ["cancelled"])
        async with bench.executing(bench.executor(other)):
            await bench.until("succeeded", "theirs")
    assert (await bench.get("theirs")).result_reference == "heard at 2"
    assert await bench.states("version") == ("running", ["running"])


@ON_ONE_DATABASE
async def test_many_come_back_page_by_page_before_the_first_pause(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(*submissions(250))
    await bench.lost_with_their_executor(250)
    async with bench.executing(concurrency=100):
        await bench.over()
    ends = await bench.ends()
    assert {(end.state, *end.attempts) for end in ends.values()} == {
        ("succeeded", "interrupted", "succeeded")
    }


@ON_ONE_DATABASE
async def test_what_other_executors_have_in_hand_is_left_to_them(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    await bench.submit(submission())
    async with bench.executing(poll_interval_seconds=NEVER):
        await gate.until_reached()
        async with bench.executing() as other:
            await bench.submit(submission("next"))
            await gate.until_reached(2)
            assert all(health.failing_since is None for health in other.health)
            gate.open.set()
            await bench.over()
    assert await bench.states() == ("succeeded", ["succeeded"])


@ON_ONE_DATABASE
async def test_a_job_that_a_defect_of_the_executor_has_left_running_comes_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quick = bench.with_lease(1.0)
    settled = AttemptRunner._settled

    async def break_once(self: AttemptRunner, run: AttemptRun, ending: Ending) -> JobOutcome:
        if run.reference.ordinal == 1:
            raise LookupError("a defect")
        return await settled(self, run, ending)

    monkeypatch.setattr(AttemptRunner, "_settled", break_once)

    @quick.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await quick.run(submission())
    assert codes(await quick.attempts()) == [("interrupted", "lease_expired"), ("succeeded", None)]
    assert "attempt at job j: failed" in caplog.text
