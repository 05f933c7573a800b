"""An attempt that is ours no longer is told so, and nothing of it is recorded or kept."""

import asyncio
import contextlib
import time

import pytest

from jobs import JobContext, Settled, StopReason, ThreadJobContext
from tests.support.job_bench import NEVER, Bench, Gate
from tests.support.jobs import submission
from tests.support.telemetry import recorded_telemetry
from tests.support.waiting import eventually
from uow import SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"
INTERRUPTED_THEN_SUCCEEDED = ("succeeded", ["interrupted", "succeeded"])


async def recover(bench: Bench, *, requeue: bool = True) -> None:
    """As another executor does with an attempt whose lease has expired."""
    (attempt,) = await bench.attempts()
    reference = (await bench.running())[0]
    assert reference.token == attempt.token
    settled = await bench.jobs.step(bench.jobs.store.recover, reference, requeue=requeue)
    assert settled is (Settled.QUEUED if requeue else Settled.INTERRUPTED)
    bench.signal()


async def test_a_handler_whose_attempt_was_recovered_is_cancelled_and_the_next_attempt_wins(
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
        return f"s3://{context.attempt}"

    await bench.submit(submission())
    with recorded_telemetry() as recording:
        async with bench.executing() as executor:
            await gate.until_reached()
            await recover(bench)
            await bench.until("succeeded")
            await eventually(lambda: not executor.running)
        points = recording.points()
    assert reasons == [StopReason.LEASE_LOST]
    assert await bench.states() == INTERRUPTED_THEN_SUCCEEDED
    assert (await bench.get()).result_reference == "s3://2"
    outcomes = {
        point.attributes["outcome"]: point.value for point in points if point.metric == "jobs.operations"
    }
    assert outcomes == {"lease_lost": 1, "succeeded": 1}


async def test_what_a_handler_returns_that_never_heard_of_it_is_not_recorded(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        if context.attempt == 1:
            await gate.pass_through()
        return f"s3://{context.attempt}"

    await bench.submit(submission())
    async with bench.executing(status_poll_seconds=NEVER) as executor:
        await gate.until_reached()
        await recover(bench)
        await bench.until("succeeded")
        before = await bench.jobs.rows()
        gate.open.set()
        await eventually(lambda: not executor.running)
    assert await bench.jobs.rows() == before
    assert await bench.states() == INTERRUPTED_THEN_SUCCEEDED
    assert (await bench.get()).result_reference == "s3://2"


async def test_the_effects_of_a_transactional_handler_are_rolled_back(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
        if context.attempt == 1:
            await gate.pass_through()
        await bench.write(unit, context.attempt)
        return f"ledger/{context.attempt}"

    await bench.submit(submission())
    with recorded_telemetry() as recording:
        async with bench.executing(status_poll_seconds=NEVER) as executor:
            await gate.until_reached()
            await recover(bench, requeue=False)
            gate.open.set()
            await eventually(lambda: not executor.running)
        points = recording.points()
    assert await bench.counts() == (0, 0, 1)
    assert await bench.states() == ("interrupted", ["interrupted"])
    outcomes = [point.attributes["outcome"] for point in points if point.metric == "jobs.operations"]
    assert outcomes == ["lease_lost"]


@ON_ONE_DATABASE
async def test_of_two_attempts_of_a_transactional_handler_the_later_one_is_kept(bench: Bench) -> None:
    first = Gate()

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
        if context.attempt == 1:
            with contextlib.suppress(asyncio.CancelledError):
                await first.pass_through()
        await bench.write(unit, context.attempt)
        return f"ledger/{context.attempt}"

    await bench.submit(submission())
    async with bench.executing():
        await first.until_reached()
        await recover(bench)
        await bench.until("succeeded")
    assert await bench.counts() == (1, 1, 1)
    assert await bench.states() == INTERRUPTED_THEN_SUCCEEDED
    assert (await bench.get()).result_reference == "ledger/2"


@ON_ONE_DATABASE
async def test_the_renewal_of_leases_hears_of_it_without_any_poll(bench: Bench) -> None:
    quick, gate = bench.with_lease(1.0), Gate()
    reasons: list[StopReason | None] = []

    @quick.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        try:
            await gate.pass_through()
        finally:
            reasons.append(context.stop_reason)

    await quick.submit(submission())
    async with quick.executing(status_poll_seconds=NEVER):
        await gate.until_reached()
        await recover(quick, requeue=False)
        await eventually(lambda: reasons)
    assert reasons == [StopReason.LEASE_LOST]
    assert await quick.states() == ("interrupted", ["interrupted"])


@ON_ONE_DATABASE
async def test_a_lost_lease_goes_before_every_other_reason(bench: Bench) -> None:
    """The handler was told to end already; the clean-up that goes on can see that it is too late for it."""
    quick, gate, cleaning = bench.with_lease(1.0), Gate(), Gate()
    contexts: list[JobContext] = []
    reasons: list[StopReason | None] = []

    @quick.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        contexts.append(context)
        with contextlib.suppress(asyncio.CancelledError):
            await gate.pass_through()
        reasons.append(context.stop_reason)
        await cleaning.pass_through()
        return "s3://a"

    await quick.submit(submission())
    async with quick.executing():
        await gate.until_reached()
        await quick.cancel()
        await cleaning.until_reached()
        (context,) = contexts
        await quick.jobs.step(quick.jobs.store.recover, context.reference, requeue=True)
        await eventually(lambda: context.stop_reason is StopReason.LEASE_LOST)
        cleaning.open.set()
    assert reasons == [StopReason.CANCEL_REQUESTED]
    assert await quick.states() == ("cancelled", ["cancelled"])


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(bench: Bench) -> None:
    quick = bench.with_lease(1.0)

    @quick.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        time.sleep(1.6)
        return f"s3://{context.attempt}"

    await quick.run(submission())
    assert await quick.states() == ("succeeded", ["succeeded"])


@ON_ONE_DATABASE
async def test_a_thread_whose_attempt_was_recovered_hears_of_it(bench: Bench) -> None:
    gate = Gate()
    loop = asyncio.get_running_loop()
    reasons: list[StopReason | None] = []

    @bench.registry.handler(HANDLER)
    def build(context: ThreadJobContext) -> str:
        loop.call_soon_threadsafe(gate.reached.append, "")
        context.wait(NEVER)
        reasons.append(context.stop_reason)
        return "s3://a"

    await bench.submit(submission())
    async with bench.executing() as executor:
        await gate.until_reached()
        await recover(bench, requeue=False)
        await eventually(lambda: not executor.running)
    assert reasons == [StopReason.LEASE_LOST]
    assert await bench.states() == ("interrupted", ["interrupted"])
