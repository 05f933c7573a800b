"""A rolling deployment: old executors know one version of the handlers, new ones two, and both run."""

from typing import Any

import pytest

from jobs import JobState
from jobs.recover import LEASE_EXPIRED
from tests.faults.executor_process import executor_process
from tests.support.executing import BOOK, CHARGE, MAIL, Executing, job
from tests.support.process import kill, said
from tests.support.waiting import eventually

OLD, NEW = (1,), (1, 2)
QUICK: dict[str, Any] = {"unknown_handler_seconds": 0.2}
FOR_EACH = 50


async def test_an_old_executor_leaves_jobs_of_a_new_version_to_a_new_one(executing: Executing) -> None:
    await executing.submit(job(MAIL, "new", version=2), job(MAIL, "old"))
    due = (await executing.get("new")).next_run
    async with executing.executor("old", versions=OLD, **QUICK):
        await eventually(lambda: succeeded(executing, "old"))
        await eventually(lambda: put_off(executing, "new", due))
    left = await executing.get("new")
    assert (left.state, left.attempt_count, left.attempts_left, left.error_code) == ("queued", 0, 5, None)
    assert await executing.faults() == []
    async with executing.executor("new", versions=NEW, **QUICK):
        await eventually(lambda: succeeded(executing, "new"))
    assert await executing.states("new") == ("succeeded", ["succeeded"])
    assert executing.calls.of("new") == [(1, "new")]


@pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])
async def test_old_and_new_executors_side_by_side_run_what_each_knows(executing: Executing) -> None:
    jobs = [
        job(handler, f"{handler}-{version}-{number}", version=version)
        for number in range(FOR_EACH // 2)
        for version in (1, 2)
        for handler in (MAIL, BOOK)
    ]
    async with (
        executor_process(executing, process="old", versions=OLD, lease_seconds=30, options=QUICK) as old,
        executing.executor("new", versions=NEW, lease_seconds=30, **QUICK),
    ):
        await said(old, "runs")
        await executing.submit(*jobs)
        await executing.until(JobState.SUCCEEDED, timeout=30)
    calls = executing.calls.read()
    assert sorted(call.job_id for call in calls) == sorted(each.key.job_id for each in jobs)
    assert {call.process for call in calls if call.version == 2} == {"new"}
    assert {call.process for call in calls if call.version == 1} >= {"old"}
    assert {row["attempt_count"] for row in (await executing.stored()).jobs} == {1}
    assert await executing.faults() == []


async def test_what_a_dead_new_executor_had_in_hand_is_left_to_another_new_one(executing: Executing) -> None:
    """The old one does not know which of these handlers may run again."""
    await executing.submit(job(MAIL, "again", version=2), job(CHARGE, "once", version=2), job(MAIL, "old"))
    async with executor_process(executing, process="new", does="hang", versions=NEW) as new:
        for _ in range(3):
            await said(new, "here")
        await kill(new)
    async with executing.executor("old", versions=OLD, **QUICK):
        await eventually(lambda: succeeded(executing, "old"))
        for job_id in ("again", "once"):
            assert await executing.states(job_id) == ("running", ["running"])
        async with executing.executor("newer", versions=NEW, **QUICK):
            await executing.until(JobState.SUCCEEDED, JobState.INTERRUPTED)
    assert await executing.states("again") == ("succeeded", ["interrupted", "succeeded"])
    assert executing.calls.of("again") == [(1, "new"), (2, "newer")]
    assert await executing.states("once") == ("interrupted", ["interrupted"])
    assert (await executing.get("once")).error_code == LEASE_EXPIRED
    assert await executing.faults() == []


async def succeeded(executing: Executing, job_id: str) -> bool:
    return (await executing.get(job_id)).state is JobState.SUCCEEDED


async def put_off(executing: Executing, job_id: str, due: object) -> bool:
    return (await executing.get(job_id)).next_run != due
