"""What would end a process or a generator ends one attempt, wherever the host's code raises it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jobs import JobContext, JobHandlerError, JobRegistry, Jobs, RetryPolicy
from tests.support.job_bench import Bench
from tests.support.jobs import SCOPE, submission
from uow import SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite"])

EXITS = [SystemExit, GeneratorExit, asyncio.CancelledError, type("Ending", (BaseException,), {})]


class SpeechlessError(ValueError):
    def __str__(self) -> str:
        raise SystemExit(9)


class LeavingPolicy(RetryPolicy):
    kind: type[BaseException] = SystemExit

    def delay_seconds(self, error: BaseException, attempt: int) -> float | None:
        raise self.kind


def fails_twice(bench: Bench, failing: Callable[[], Any], **options: Any) -> Any:
    """A handler that fails so, beside one that succeeds."""

    @bench.registry.handler("invoices.render", **options)
    async def fail(context: JobContext) -> None:
        await asyncio.sleep(0)
        failing()

    @bench.registry.handler("fine")
    async def fine(context: JobContext) -> None:
        pass


@pytest.mark.parametrize("kind", EXITS)
async def test_an_exit_of_a_handler_is_a_failed_attempt(bench: Bench, kind: type[BaseException]) -> None:
    def leave() -> None:
        raise kind

    fails_twice(bench, leave)
    await bench.run(submission(), submission("k", handler="fine"))
    assert (await bench.states())[0] in {"failed", "queued", "interrupted"}
    assert (await bench.states("k"))[0] == "succeeded"


async def test_an_exit_of_a_transactional_handler_keeps_nothing(bench: Bench) -> None:
    @bench.registry.handler("invoices.render", transactional=True)
    async def leave(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await bench.write(unit)
        raise GeneratorExit

    await bench.run(submission())
    assert (await bench.ending())[0] == "failed"
    assert await bench.counts() == (0, 0, 1)


@pytest.mark.parametrize("kind", EXITS)
async def test_an_exit_of_a_retry_policy_gives_the_job_up(bench: Bench, kind: type[BaseException]) -> None:
    policy = type("Policy", (LeavingPolicy,), {"kind": kind})()

    def fail() -> None:
        raise ValueError("no")

    fails_twice(bench, fail, retry=policy)
    await bench.run(submission(), submission("k", handler="fine"))
    assert await bench.ending() == ("failed", "handler_error")
    assert (await bench.states("k"))[0] == "succeeded"


async def test_an_error_whose_text_exits_is_told_by_its_class(bench: Bench) -> None:
    def fail() -> None:
        raise SpeechlessError

    fails_twice(bench, fail)
    await bench.run(submission())
    assert await bench.ending() == ("failed", "handler_error")
    assert "SpeechlessError" in str((await bench.get()).error_detail)


async def test_a_handler_whose_coroutine_nobody_awaits_fails_and_says_why(bench: Bench) -> None:
    async def render(context: JobContext) -> None:
        raise AssertionError("never begun")

    @bench.registry.handler("invoices.render")
    def decorated(context: JobContext) -> Any:
        return render(context)

    await bench.run(submission())
    assert await bench.ending() == ("failed", "result")
    assert "look at its decorator" in str((await bench.get()).error_detail)


def test_a_handler_that_yields_is_refused(database_kind: str) -> None:
    def steps(context: JobContext) -> Any:
        yield 1

    with pytest.raises(JobHandlerError, match="must not yield"):
        JobRegistry().handler("invoices.render")(steps)


async def test_looking_at_jobs_waits_for_no_writer(bench: Bench) -> None:
    client = Jobs(bench.sessions, bench.jobs.store)
    await bench.submit(submission())
    async with bench.unit() as unit:
        await bench.write(unit)
        await unit.session.flush()
        async with asyncio.timeout(5):
            assert (await client.get(SCOPE, "j")).state == "queued"
            assert [job.job_id for job in await client.list(SCOPE)] == ["j"]
