"""Cancellations against the ends of jobs: job and attempt agree on which was first."""

import asyncio
import random

from jobs import CancelAnswer, JobContext
from jobs.state import FINAL
from tests.support.executing import BOOK, MAIL, SCOPE, Executing, job

JOBS = 201
SECONDS = 0.2


async def test_two_hundred_jobs_are_cancelled_while_they_end(executing: Executing) -> None:
    """The moment of each cancellation is drawn around that of the end of its job."""
    dice = random.Random(11)
    answers: dict[str, CancelAnswer] = {}
    cancelling: set[asyncio.Task[None]] = set()

    async def cancel(job_id: str) -> None:
        await asyncio.sleep(dice.random() * 2 * SECONDS)
        answers[job_id] = await executing.client.cancel(SCOPE, job_id)

    async def work(context: JobContext) -> None:
        cancelling.add(asyncio.create_task(cancel(context.job_id)))
        await asyncio.sleep(SECONDS)

    handlers = (MAIL, BOOK) if executing.engine.dialect.name != "sqlite" else (MAIL,)
    await executing.submit(*(job(handlers[n % len(handlers)], f"{n:03d}") for n in range(JOBS)))
    async with executing.executor(behave=work, concurrency=40, lease_seconds=30, status_poll_seconds=0.05):
        await executing.until(*FINAL, timeout=30)
        await asyncio.gather(*cancelling)
    assert await executing.faults() == []
    stored = await executing.stored()
    for row in stored.jobs:
        expected = {"succeeded": CancelAnswer.FINAL, "cancelled": CancelAnswer.REQUESTED}[row["state"]]
        assert answers[row["job_id"]] is expected
    assert len(set(answers.values())) == 2, "both orders should have happened"
    assert {each["state"] for each in stored.attempts} == {"succeeded", "cancelled"}
