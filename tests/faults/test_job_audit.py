"""The audit of jobs finds nothing wrong with what executors leave behind, and all that is tampered with."""

import asyncio
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from jobs import JobContext, JobFailure
from tests.support.executing import BOOK, MAIL, Executing, audit, job
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite"])

TAMPERED = [
    ("DELETE FROM jobs_attempt WHERE job_id = 'mail.send'", "has begun 1 attempts, but has the rows []"),
    ("DELETE FROM jobs_job WHERE job_id = 'mail.send'", "is gone, its attempts are not"),
    ("UPDATE jobs_job SET attempt_count = 2 WHERE job_id = 'mail.send'", "has begun 2 attempts"),
    ("UPDATE jobs_job SET forgiven_count = 1 WHERE job_id = 'mail.send'", "1 attempts that used none up"),
    ("UPDATE jobs_job SET max_attempts = 0 WHERE job_id = 'mail.send'", "used up more than its 0"),
    (
        "UPDATE jobs_job SET attempt_token = '00000000000000000000000000000000' WHERE job_id = 'mail.send'",
        "another token",
    ),
    ("UPDATE jobs_job SET state = 'running' WHERE job_id = 'mail.send'", "is running although"),
    ("UPDATE jobs_job SET state = 'gone' WHERE job_id = 'mail.send'", "in no state that there is"),
    ("UPDATE jobs_job SET completed_ticks = NULL WHERE job_id = 'mail.send'", "without the time of its end"),
    ("UPDATE jobs_job SET queued_in = 'default' WHERE job_id = 'mail.send'", "with queued_in default"),
    ("UPDATE jobs_job SET lease_expires_ticks = 1 WHERE job_id = 'mail.send'", "with lease_expires_ticks"),
    ("UPDATE jobs_job SET result_reference = 'x' WHERE job_id = 'mail.send'", "another result"),
    ("UPDATE jobs_job SET state = 'succeeded' WHERE job_id = 'failed'", "but its last attempt failed"),
    ("UPDATE jobs_job SET error_code = NULL WHERE job_id = 'failed'", "is failed without a reason"),
    ("UPDATE jobs_job SET result_reference = 'x' WHERE job_id = 'failed'", "with result_reference x"),
    ("UPDATE jobs_job SET queued_in = NULL WHERE job_id = 'waiting'", "where nobody finds it"),
    ("UPDATE jobs_job SET max_attempts = 0 WHERE job_id = 'waiting'", "without an attempt left"),
    ("UPDATE jobs_job SET cancel_requested = 1 WHERE job_id = 'waiting'", "although its cancellation"),
    ("UPDATE jobs_attempt SET state = 'running' WHERE job_id = 'mail.send'", "nobody will end it"),
    ("UPDATE jobs_attempt SET ended_ticks = NULL WHERE job_id = 'mail.send'", "has ended at None"),
    (
        "UPDATE jobs_attempt SET token = '00000000000000000000000000000000' WHERE job_id = 'mail.send'",
        "another token",
    ),
    ("DELETE FROM booking", "is succeeded with 0 bookings instead of 1"),
    ("INSERT INTO booking (job_id, process) SELECT job_id, process FROM booking", "with 2 bookings"),
    ("INSERT INTO booking (job_id, process) VALUES ('nobody', 'x')", "is None with 1 bookings instead of 0"),
    ("UPDATE jobs_job SET state = 'failed' WHERE job_id = 'ledger.book'", "is failed with 1 events"),
    ("DELETE FROM outbox_message", "is succeeded with 0 events instead of 1"),
]
RUNNING_TAMPERED = [
    ("UPDATE jobs_job SET lease_expires_ticks = NULL", "without a lease"),
    ("UPDATE jobs_attempt SET state = 'failed', ended_ticks = 1", "without a running attempt"),
]


async def break_if_told(context: JobContext) -> None:
    if context.job_id == "failed":
        raise JobFailure("broken", "as the test wants it")


async def test_it_finds_each_thing_that_is_tampered_with(executing: Executing) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    await executing.submit(job(MAIL), job(BOOK), job(MAIL, "failed"), job(MAIL, "waiting", not_before=later))
    async with executing.executor(behave=break_if_told):
        await eventually(lambda: ended(executing, 3))
    assert await executing.faults() == []
    assert [await missed(executing, *tampering) for tampering in TAMPERED] == [None] * len(TAMPERED)


async def test_it_knows_what_runs(executing: Executing) -> None:
    await executing.submit(job(MAIL))
    calls, let_go_on = asyncio.Event(), asyncio.Event()

    async def wait(context: JobContext) -> None:
        calls.set()
        await let_go_on.wait()

    async with executing.executor(behave=wait):
        await calls.wait()
        assert await executing.faults(at_rest=False) == []
        for tampering in RUNNING_TAMPERED:
            assert await missed(executing, *tampering, at_rest=False) is None
        let_go_on.set()
        await eventually(lambda: ended(executing, 1))


async def missed(executing: Executing, statement: str, fault: str, *, at_rest: bool = True) -> str | None:
    """What was tampered with and not found; it is rolled back in the end."""
    async with executing.engine.connect() as connection:
        await connection.execute(text(statement))
        found = await connection.run_sync(audit, at_rest=at_rest)
        await connection.rollback()
    return None if any(fault in each for each in found) else f"{statement}: found only {found}"


async def ended(executing: Executing, count: int) -> bool:
    return sum(row["completed_ticks"] is not None for row in (await executing.stored()).jobs) == count
