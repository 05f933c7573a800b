"""An outage of the database loses nothing that has ended, and nothing is recorded twice."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from jobs import JobContext, StopReason
from tests.support.databases import engine_for
from tests.support.job_bench import NEVER, Bench, Gate, codes
from tests.support.jobs import SEVERAL_WRITERS, submission, submissions
from tests.support.proxy import Reaction, TcpProxy
from tests.support.telemetry import Point, recorded_telemetry
from tests.support.waiting import eventually
from uow import SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

pytestmark = pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
HANDLER = "invoices.render"
UNWOKEN = {"poll_interval_seconds": NEVER, "status_poll_seconds": NEVER}


@dataclass
class Line:
    """A bench whose executors reach the database through a proxy; `bench` itself does not."""

    bench: Bench
    proxy: TcpProxy
    far: Bench

    def go_away(self) -> None:
        self.proxy.refusing = True
        self.proxy.cut()

    def come_back(self) -> None:
        self.proxy.refusing = False

    def with_lease(self, lease_seconds: float) -> Bench:
        far = self.far.with_lease(lease_seconds)
        far.signal = self.bench.signal
        return far


@pytest.fixture
async def line(bench: Bench) -> AsyncIterator[Line]:
    url = bench.engine.url.render_as_string(hide_password=False)
    async with TcpProxy.before(url) as proxy, engine_for(proxy.through(url)) as engine:
        far = Bench(engine)
        far.registry, far.signal = bench.registry, bench.signal
        yield Line(bench, proxy, far)


async def quiet(rounds: Counter[str]) -> None:
    """Wait until a first job was claimed, and after it none, so that only its handler uses the line."""
    await eventually(lambda: rounds["claiming of jobs"] == 2 and rounds["recovery of jobs"] == 1)
    rounds.clear()


def outcomes(points: list[Point]) -> dict[str, int]:
    return {point.attributes["outcome"]: point.value for point in points if point.metric == "jobs.operations"}


async def test_handlers_that_end_meanwhile_are_settled_afterwards_once(line: Line) -> None:
    bench, gate = line.bench, Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        await gate.pass_through()
        return f"s3://{context.attempt}"

    await bench.submit(*submissions(5))
    with recorded_telemetry() as recording:
        async with line.far.executing() as executor:
            await gate.until_reached(5)
            line.go_away()
            gate.open.set()
            await eventually(lambda: not executor.running)
            await eventually(lambda: executor._settler._working is not None)
            assert {end.state for end in (await bench.ends()).values()} == {"running"}
            line.come_back()
            await bench.over()
        points = recording.points()
    ends = await bench.ends()
    assert {(end.state, end.result, *end.attempts) for end in ends.values()} == {
        ("succeeded", "s3://1", "succeeded")
    }
    assert outcomes(points) == {"succeeded": 5}


async def test_an_end_whose_answer_was_lost_is_counted_as_what_it_is(
    line: Line, rounds: Counter[str]
) -> None:
    """It is written, and the connection breaks before that is heard; written again it would be fenced."""
    bench, gate = line.bench, Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()
        if context.job_id == "fails":
            raise ValueError("no paper")

    for job_id, end in (("ends", "succeeded"), ("fails", "failed")):
        gate.open.clear()
        await bench.submit(submission(job_id))
        with recorded_telemetry() as recording:
            async with line.far.executing(**UNWOKEN):
                await gate.until_reached()
                await quiet(rounds)
                line.proxy.react(b"COMMIT", Reaction.CUT_AFTER_REPLY)
                gate.open.set()
                await line.proxy.seen.wait()
                await bench.until(end, job_id)
            points = recording.points()
        assert outcomes(points) == {end: 1}
        gate.reached.clear()
    assert await bench.states("ends") == ("succeeded", ["succeeded"])


async def test_a_transactional_commit_whose_answer_was_lost_is_found_to_be_made(
    line: Line, rounds: Counter[str]
) -> None:
    bench, gate = line.bench, Gate()

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
        await bench.write(unit)
        await gate.pass_through()
        return "ledger/1"

    await bench.submit(submission())
    with recorded_telemetry() as recording:
        async with line.far.executing(**UNWOKEN) as executor:
            await gate.until_reached()
            await quiet(rounds)
            line.proxy.react(b"COMMIT", Reaction.CUT_AFTER_REPLY)
            gate.open.set()
            await line.proxy.seen.wait()
            await eventually(lambda: not executor.running)
        points = recording.points()
    assert outcomes(points) == {"succeeded": 1}
    assert await bench.states() == ("succeeded", ["succeeded"])
    assert await bench.counts() == (1, 1, 1)


async def test_a_transactional_commit_that_never_arrived_is_made_by_the_next_attempt(
    line: Line, rounds: Counter[str]
) -> None:
    bench, gate = line.bench, Gate()

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await bench.write(unit, context.attempt)
        if context.attempt == 1:
            await gate.pass_through()

    await bench.submit(submission())
    async with line.far.executing(**UNWOKEN):
        await gate.until_reached()
        await quiet(rounds)
        line.proxy.react(b"COMMIT", Reaction.CUT_BEFORE_SERVER)
        gate.open.set()
        await bench.until_attempt_ended()
    assert codes(await bench.attempts()) == [("interrupted", "database_lost")]
    assert (await bench.get()).state == "queued"
    assert await bench.counts() == (0, 0, 1)


async def test_an_executor_that_begins_in_an_outage_works_when_it_is_over(line: Line) -> None:
    bench = line.bench

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(submission())
    line.go_away()
    async with line.far.executing() as executor:
        await eventually(lambda: executor.health[0].failing_since)
        line.come_back()
        await bench.over()
        await eventually(lambda: all(health.failing_since is None for health in executor.health))


async def test_an_outage_that_outlasts_the_lease_ends_the_handler_and_the_next_attempt_wins(
    line: Line,
) -> None:
    bench, gate = line.bench, Gate()
    far = line.with_lease(1.0)
    reasons: list[StopReason | None] = []

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        if context.attempt == 1:
            try:
                await gate.pass_through()
            finally:
                reasons.append(context.stop_reason)
        return f"s3://{context.attempt}"

    await bench.submit(submission())
    async with far.executing():
        await gate.until_reached()
        line.go_away()
        await eventually(lambda: reasons)
        line.come_back()
        await bench.until("succeeded")
    assert reasons == [StopReason.LEASE_LOST]
    assert await bench.states() == ("succeeded", ["interrupted", "succeeded"])
    assert (await bench.get()).result_reference == "s3://2"


async def test_an_executor_stops_in_an_outage_once_its_leases_have_run_out(line: Line) -> None:
    bench, gate = line.bench, Gate()
    far = line.with_lease(1.0)

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        with contextlib.suppress(BaseException):
            await gate.pass_through()

    await bench.submit(submission())
    async with far.executing(stop_grace_seconds=0.05):
        await gate.until_reached()
        line.go_away()
    assert await bench.states() == ("running", ["running"])
