"""An executor killed at any point leaves no job behind: each ends as its handler was promised."""

from typing import Any

import pytest

from jobs import JobState
from jobs.recover import LEASE_EXPIRED
from tests.faults import freeze
from tests.faults.executor_process import executor_process
from tests.support.executing import BOOK, CHARGE, MAIL, Executing, job
from tests.support.process import kill, said

FINAL = (JobState.SUCCEEDED, JobState.INTERRUPTED)
ONCE = ("succeeded", ["succeeded"])
AGAIN = ("succeeded", ["interrupted", "succeeded"])
"""States of a job and of its attempts."""

on_two_databases = pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])


async def killed(executing: Executing, *, heres: int = 1, **part: Any) -> None:
    """Start an executor and kill it where it tells."""
    async with executor_process(executing, **part) as process:
        for _ in range(heres):
            await said(process, "here")
        await kill(process)


async def finished(executing: Executing) -> None:
    """Let another executor work until all is done."""
    async with executing.executor():
        await executing.until(*FINAL)
    assert await executing.faults() == []


async def interrupted_once(executing: Executing, job_id: str) -> bool:
    """Whether the job has ended with the attempt that was killed, and says why."""
    stored = await executing.get(job_id)
    states = await executing.states(job_id)
    return stored.error_code == LEASE_EXPIRED and states == ("interrupted", ["interrupted"])


async def test_jobs_that_were_claimed_but_not_begun_run_elsewhere(executing: Executing) -> None:
    await executing.submit(job(MAIL), job(BOOK), job(CHARGE))
    await killed(executing, frozen_at=freeze.CLAIMED)
    assert executing.calls.read() == []
    await finished(executing)
    for job_id in (MAIL, BOOK):
        assert await executing.states(job_id) == AGAIN
        assert executing.calls.of(job_id) == [(2, "survivor")]
    assert await interrupted_once(executing, CHARGE)
    assert executing.calls.of(CHARGE) == []


@on_two_databases
async def test_handlers_in_the_middle_run_again_where_they_may_and_leave_no_half_effects(
    executing: Executing,
) -> None:
    await executing.submit(job(MAIL), job(BOOK), job(CHARGE))
    await killed(executing, heres=3, does="hang")
    await finished(executing)
    for job_id in (MAIL, BOOK):
        assert await executing.states(job_id) == AGAIN
        assert executing.calls.of(job_id) == [(1, "killed"), (2, "survivor")]
    assert await interrupted_once(executing, CHARGE)
    assert executing.calls.of(CHARGE) == [(1, "killed")]


async def test_what_plain_handlers_did_is_repeated_when_their_end_was_not_committed(
    executing: Executing,
) -> None:
    await executing.submit(job(MAIL), job(CHARGE))
    await killed(executing, frozen_at=freeze.ENDING)
    await finished(executing)
    assert await executing.states(MAIL) == AGAIN
    assert executing.calls.of(MAIL) == [(1, "killed"), (2, "survivor")]
    assert await interrupted_once(executing, CHARGE)
    assert executing.calls.of(CHARGE) == [(1, "killed")]


async def test_effects_of_a_transactional_handler_go_with_its_end_that_was_not_committed(
    executing: Executing,
) -> None:
    await executing.submit(job(BOOK))
    await killed(executing, frozen_at=freeze.ENDING)
    assert await executing.bookings() == await executing.events() == {}
    await finished(executing)
    assert await executing.states(BOOK) == AGAIN
    assert executing.calls.of(BOOK) == [(1, "killed"), (2, "survivor")]
    assert await executing.bookings() == await executing.events() == {BOOK: 1}


@on_two_databases
async def test_an_end_that_was_committed_stays_although_nobody_heard_of_it(executing: Executing) -> None:
    await executing.submit(job(BOOK))
    await killed(executing, frozen_at=freeze.ENDED)
    assert await executing.states(BOOK) == ONCE
    await finished(executing)
    assert await executing.states(BOOK) == ONCE
    assert executing.calls.of(BOOK) == [(1, "killed")]


@on_two_databases
async def test_a_recovery_that_is_killed_too_is_done_by_the_next(executing: Executing) -> None:
    await executing.submit(job(MAIL), job(BOOK), job(CHARGE))
    await killed(executing, heres=3, does="hang")
    await killed(executing, process="second", frozen_at=freeze.ENDING)
    assert {row["state"] for row in (await executing.stored()).jobs} == {"running"}
    await finished(executing)
    for job_id in (MAIL, BOOK):
        assert await executing.states(job_id) == AGAIN
        assert executing.calls.of(job_id) == [(1, "killed"), (2, "survivor")]
    assert await interrupted_once(executing, CHARGE)
