"""Two who reach for the same job at the same moment: one wins, the other is told, job and attempt agree."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from jobs import (
    AttemptReference,
    CancelAnswer,
    Fenced,
    JobOptions,
    JobStore,
    Settled,
    Settlement,
    StartedJob,
)
from tests.support.blocking import someone_waits
from tests.support.jobs import SCOPE, StoredJobs, key, submissions
from uow.sql.clock import DatabaseClock

pytest_plugins = ("tests.support.jobs_fixture",)

RACES = 112
"""Of each kind on each database: more than a thousand in all."""

T = TypeVar("T")
Runner = Callable[[int], Awaitable[T]]


async def race(first: Runner[Any], second: Runner[Any]) -> list[tuple[Any, Any]]:
    """The answers of both for each number, of which both begin at the same moment."""
    barrier = asyncio.Barrier(2)

    async def run(runner: Runner[Any], late: int) -> list[Any]:
        answers = []
        for number in range(RACES):
            await barrier.wait()
            # A few turns of the event loop, so that neither is always the first.
            for _ in range(number % 7 if number % 2 == late else 0):
                await asyncio.sleep(0)
            answers.append(await runner(number))
        return answers

    answers = await asyncio.gather(run(first, 0), run(second, 1))
    return list(zip(*answers, strict=True))


async def started(stored: StoredJobs) -> list[AttemptReference]:
    await stored.submit(*submissions(RACES))
    references = [job.reference for job in (await stored.claim(limit=RACES)).started]
    return sorted(references, key=lambda reference: reference.job_id)


async def pairs(stored: StoredJobs) -> list[tuple[str, list[str]]]:
    """The state of each job and those of its attempts."""
    rows = await stored.rows()
    attempts: dict[str, list[str]] = {row["job_id"]: [] for row in rows["jobs_job"]}
    for row in rows["jobs_attempt"]:
        attempts[row["job_id"]].append(row["state"])
    return [(row["state"], attempts[row["job_id"]]) for row in rows["jobs_job"]]


async def test_complete_against_cancel(stored: StoredJobs) -> None:
    references = await started(stored)

    async def complete(number: int) -> Settled:
        return await stored.step(stored.store.succeed, references[number], "s3://a")

    async def cancel(number: int) -> CancelAnswer:
        return await stored.step(stored.store.cancel, SCOPE, references[number].job_id)

    answers = await race(complete, cancel)
    assert set(answers) <= {
        (Settled.SUCCEEDED, CancelAnswer.FINAL),
        (Settled.CANCELLED, CancelAnswer.REQUESTED),
    }
    rows = await stored.rows()
    assert {row["result_reference"] for row in rows["jobs_job"] if row["state"] == "cancelled"} <= {None}
    expected = [(settled.value, [settled.value]) for settled, _ in answers]
    assert await pairs(stored) == expected
    if stored.engine.dialect.name != "sqlite":
        assert len(set(answers)) == 2, "both orders should have happened"


async def test_two_starters(stored: StoredJobs) -> None:
    await stored.submit(*submissions(RACES))

    def starter(owner: str) -> Runner[StartedJob | Fenced]:
        async def start(number: int) -> StartedJob | Fenced:
            return await stored.step(stored.store.try_start, key(f"j{number:05d}"), owner=owner)

        return start

    answers = await race(starter("one"), starter("two"))
    for pair in answers:
        (winner,) = (answer for answer in pair if isinstance(answer, StartedJob))
        assert Fenced.FENCED in pair
        assert winner.reference.ordinal == 1
    assert await pairs(stored) == [("running", ["running"])] * RACES
    rows = await stored.rows()
    tokens = {row["token"] for row in rows["jobs_attempt"]}
    assert tokens == {row["attempt_token"] for row in rows["jobs_job"]}
    assert len(tokens) == RACES


async def test_recover_against_complete(stored: StoredJobs) -> None:
    references = await started(stored)

    async def complete(number: int) -> Settled:
        return await stored.step(stored.store.succeed, references[number])

    async def recover(number: int) -> Settled:
        return await stored.step(stored.store.recover, references[number], requeue=number % 2 == 0)

    answers = await race(complete, recover)
    for number, (completed, recovered) in enumerate(answers):
        ended = Settled.QUEUED if number % 2 == 0 else Settled.INTERRUPTED
        assert (completed, recovered) in {(Settled.SUCCEEDED, Settled.FENCED), (Settled.FENCED, ended)}
    expected = []
    for completed, recovered in answers:
        if completed is Settled.SUCCEEDED:
            expected.append(("succeeded", ["succeeded"]))
        else:
            expected.append((recovered.value, ["interrupted"]))
    assert await pairs(stored) == expected


async def test_claimers_share_jobs_without_sharing_any(stored: StoredJobs) -> None:
    store = JobStore(stored.tables, options=JobOptions(), clock=DatabaseClock())
    await stored.step(store.submit_many, submissions(1000))
    claimed: Counter[str] = Counter()

    async def claimer(number: int) -> None:
        while True:
            report = await stored.step(store.start_many, ["default"], limit=37, owner=f"executor-{number}")
            if not report.looked_at:
                return
            claimed.update(job.reference.job_id for job in report.started)
            await stored.step(
                store.settle_many, [Settlement.succeed(job.reference) for job in report.started]
            )

    await asyncio.gather(*(claimer(number) for number in range(8)))
    assert len(claimed) == 1000
    assert set(claimed.values()) == {1}
    assert await pairs(stored) == [("succeeded", ["succeeded"])] * 1000


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
async def test_a_cancellation_that_commits_while_the_end_waits_for_it_is_seen(stored: StoredJobs) -> None:
    """The end has already found the row when the mark is committed."""
    reference = await stored.submitted_and_started()
    async with stored.engine.connect() as canceller:
        await canceller.run_sync(stored.store.cancel, SCOPE, reference.job_id)
        end = asyncio.create_task(stored.step(stored.store.succeed, reference, "s3://a"))
        await someone_waits(stored.engine)
        await canceller.commit()
    assert await end is Settled.CANCELLED
    assert await stored.states() == ("cancelled", ["cancelled"])
    assert (await stored.get()).result_reference is None


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
async def test_renewal_does_not_wait_for_a_row_that_someone_has_locked(stored: StoredJobs) -> None:
    locked = await stored.submitted_and_started()
    free = await stored.submitted_and_started("free")
    async with stored.engine.connect() as canceller:
        await canceller.run_sync(stored.store.cancel, SCOPE, locked.job_id)
        async with asyncio.timeout(5):
            statuses = await stored.step(stored.store.renew, [locked, free])
        await canceller.rollback()
    assert statuses == {locked: "active", free: "active"}
