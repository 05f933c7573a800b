"""Claimers, cancels, recovery, retries, retention and submissions at one table at once: no deadlock reaches
a caller, and in the end every job is final, with attempts that agree."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest
from sqlalchemy import ExceptionContext, event
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs import JobOptions, JobState, JobSubmission, Settlement, StartedJob
from jobs.state import FINAL
from tests.support.jobs import SCOPE, StoredJobs, submission
from uow.sql.clock import DatabaseClock
from uow.sql.fault import Fault, fault_of

SECONDS = 2.0
CLAIMERS, CANCELLERS, SUBMITTERS = 6, 2, 2
QUEUES = ("a", "b")


class Mix:
    """Workers of all kinds on one store, each with its own dice; they stop together."""

    def __init__(self, stored: StoredJobs, seed: int) -> None:
        self.stored = stored
        self.seed = seed
        self.count = 0
        self.done: Counter[str] = Counter()
        self.deadline = asyncio.get_running_loop().time() + SECONDS

    def running(self) -> bool:
        return asyncio.get_running_loop().time() < self.deadline

    async def run(self) -> None:
        workers: list[tuple[Callable[[random.Random], Awaitable[None]], int]] = [
            (self.submit, SUBMITTERS),
            (self.claim, CLAIMERS),
            (self.cancel, CANCELLERS),
            (self.retry, 1),
            (self.recover, 2),
            (self.clean, 1),
        ]
        await asyncio.gather(
            *(
                self.repeat(worker, random.Random(f"{self.seed} {worker.__name__} {number}"))
                for worker, count in workers
                for number in range(count)
            )
        )

    async def repeat(self, work: Callable[[random.Random], Awaitable[None]], dice: random.Random) -> None:
        while self.running():
            await work(dice)
            self.done[work.__name__] += 1
            await asyncio.sleep(dice.random() * 0.01)

    async def submit(self, dice: random.Random) -> None:
        numbers = [self.number(dice) for _ in range(dice.randint(1, 12))]
        self.count = max(self.count, *numbers)
        await self.stored.submit(*(self.request(number) for number in numbers))

    def number(self, dice: random.Random) -> int:
        """Of a new job, or of one that someone has submitted or is submitting at this moment."""
        if self.count and dice.random() < 0.2:
            return dice.randint(1, self.count)
        self.count += 1
        return self.count

    def request(self, number: int) -> JobSubmission:
        return submission(f"j{number}", queue=QUEUES[number % 2], priority=number % 3)

    def any_id(self, dice: random.Random) -> str:
        return f"j{dice.randint(1, max(self.count, 1))}"

    async def claim(self, dice: random.Random) -> None:
        started = (await self.stored.claim(*QUEUES, limit=dice.randint(1, 30))).started
        alive = [job for job in started if dice.random() > 0.1]  # the others' executor has died
        if alive and dice.random() < 0.5:
            await self.stored.step(self.stored.store.renew, [job.reference for job in alive])
        if alive:
            await self.stored.step(self.stored.store.progress, alive[0].reference, 50)
        dice.shuffle(alive)
        await self.stored.settle(*(self.end(dice, job) for job in alive))

    def end(self, dice: random.Random, job: StartedJob) -> Settlement:
        reference = job.reference
        return dice.choice(
            [
                Settlement.succeed(reference, result_reference="s3://a"),
                Settlement.fail(reference, error_code="e", error_detail=reference.job_id),
                Settlement.fail(reference, error_code="e", retry_after_seconds=dice.random() * 0.1),
                Settlement.interrupt(reference, requeue=True, counts=False),
            ]
        )

    async def cancel(self, dice: random.Random) -> None:
        await self.stored.step(self.stored.store.cancel, SCOPE, self.any_id(dice))

    async def retry(self, dice: random.Random) -> None:
        await self.stored.step(self.stored.store.retry, SCOPE, self.any_id(dice))

    async def recover(self, dice: random.Random) -> None:
        await self.stored.step(
            self.stored.store.recover_expired, limit=20, requeue=lambda _: dice.random() < 0.5
        )

    async def clean(self, dice: random.Random) -> None:
        for state in FINAL:
            await self.stored.step(self.stored.store.cleanup, state, older_than_seconds=0.3, limit=20)


@contextlib.contextmanager
def faults(engine: AsyncEngine) -> Iterator[Counter[Fault]]:
    """The faults that the database reported, those included that a fresh transaction got over."""
    met: Counter[Fault] = Counter()

    def note(context: ExceptionContext) -> None:
        met[fault_of(context.original_exception)] += 1

    event.listen(engine.sync_engine, "handle_error", note)
    try:
        yield met
    finally:
        event.remove(engine.sync_engine, "handle_error", note)


@pytest.mark.parametrize("seed", [7])
async def test_all_at_once_raise_no_deadlock_and_end_with_agreeing_rows(
    engine: AsyncEngine, seed: int
) -> None:
    stored = await StoredJobs(engine, JobOptions(lease_seconds=1), clock=DatabaseClock()).create()
    mix = Mix(stored, seed)
    with faults(engine) as met:
        await mix.run()
    assert Fault.OTHER not in met
    if engine.dialect.name == "postgresql":
        assert not met, "nothing had to be repeated"
    assert set(mix.done) == {"submit", "claim", "cancel", "retry", "recover", "clean"}
    await drain(stored)
    rows = await stored.rows()
    attempts: dict[str, list[str]] = {row["job_id"]: [] for row in rows["jobs_job"]}
    for row in rows["jobs_attempt"]:
        attempts[row["job_id"]].append(row["state"])
    for row in rows["jobs_job"]:
        assert JobState(row["state"]) in FINAL
        states = attempts.pop(row["job_id"])
        assert len(states) == row["attempt_count"]
        assert "running" not in states
        assert row["state"] == "cancelled" or states[-1] == row["state"]
    assert attempts == {}


async def drain(stored: StoredJobs) -> None:
    """Run what is left to its end, and recover what the dead left behind."""
    async with asyncio.timeout(30):
        while True:
            started = (await stored.claim(*QUEUES, limit=1000)).started
            await stored.settle(*(Settlement.succeed(job.reference) for job in started))
            await stored.step(stored.store.recover_expired, requeue=lambda _: False)
            counts = await stored.step(stored.store.counts)
            if not counts.queues:
                return
            await asyncio.sleep(0.02)
