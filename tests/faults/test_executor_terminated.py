"""SIGTERM under load: what has ended is settled, the rest runs again elsewhere and has used up no attempt."""

import asyncio
import random
import signal
from collections import Counter

import pytest

from jobs import JobState, JobSubmission
from jobs.execution.failure import SHUTDOWN
from jobs.recover import LEASE_EXPIRED
from tests.faults.executor_process import executor_process
from tests.support.databases import engine_for
from tests.support.executing import BOOK, CHARGE, MAIL, REPORT, Executing, job
from tests.support.process import said
from tests.support.proxy import Reaction, TcpProxy
from tests.support.waiting import eventually

JOBS = 150
OPTIONS = {"stop_grace_seconds": 0.05, "concurrency": 12}


def load(dice: random.Random) -> list[JobSubmission]:
    handlers = (MAIL, BOOK, REPORT)
    return [
        job(handlers[number % 3], f"{number:03d}", arguments={"seconds": dice.random() * 0.3})
        for number in range(JOBS)
    ]


@pytest.mark.parametrize(
    ("database_kind", "stops", "seed"), [("postgresql", 5, 1), ("postgresql", 5, 2), ("sqlite", 3, 3)]
)
async def test_executors_that_are_stopped_again_and_again_lose_nothing(
    executing: Executing, stops: int, seed: int
) -> None:
    dice = random.Random(seed)
    await executing.submit(*load(dice))
    for _ in range(stops):
        async with executor_process(executing, options=OPTIONS, lease_seconds=30) as process:
            for _ in range(dice.randint(1, 12)):
                await said(process, "called")
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 15) == 0
        assert await executing.faults() == []
    assert not await executing.all_in(JobState.SUCCEEDED), "the last one should find work"
    async with executing.executor(concurrency=50):
        await executing.until(JobState.SUCCEEDED, timeout=20)
    assert await executing.faults() == []
    stored = await executing.stored()
    ends = Counter((row["state"], row["error_code"]) for row in stored.attempts)
    assert ends.pop(("interrupted", SHUTDOWN)) >= stops
    assert ends == {("succeeded", None): JOBS}
    assert {row["attempt_count"] - row["forgiven_count"] for row in stored.jobs} == {1}


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
async def test_a_claim_that_outlasts_the_grace_period_gives_its_jobs_back(
    executing: Executing, caplog: pytest.LogCaptureFixture
) -> None:
    await executing.submit(job(MAIL), job(CHARGE))
    async with (
        TcpProxy.before(executing.url) as proxy,
        engine_for(proxy.through(executing.url)) as engine,
    ):
        proxy.react(b"INSERT INTO jobs_attempt", Reaction.HOLD_REPLY)
        async with executing.executor(engine=engine, stop_grace_seconds=0.05) as stop:
            await proxy.seen.wait()
            stop.set()
            await eventually(lambda: "job executor: cancelled" in caplog.text)
            await proxy.release()
    for job_id in (MAIL, CHARGE):
        assert await executing.states(job_id) == ("queued", ["interrupted"])
        assert (await executing.get(job_id)).attempts_left == 5
    assert executing.calls.read() == []
    assert await executing.faults() == []


async def test_a_second_signal_ends_the_process_at_once(executing: Executing) -> None:
    await executing.submit(job(MAIL), job(BOOK, max_attempts=2))
    async with executor_process(executing, does="ignore") as process:
        for _ in range(2):
            await said(process, "here")
        process.terminate()
        await said(process, "stops for SIGTERM")
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 5) == 128 + signal.SIGTERM
    async with executing.executor():
        await executing.until(JobState.SUCCEEDED)
    for job_id in (MAIL, BOOK):
        assert await executing.states(job_id) == ("succeeded", ["interrupted", "succeeded"])
        first, _ = await executing.client.attempts("shop", job_id)
        assert first.error_code == LEASE_EXPIRED
    assert (await executing.get(BOOK)).attempts_left == 0
    assert await executing.faults() == []
