"""The audit of schedules finds nothing wrong with what hosts leave behind, and all that is tampered with."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from jobs.schedule.hosting.context import ScheduleContext
from tests.support.scheduling import Scheduling
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite"])

A_RUN = "(SELECT min(run_id) FROM jobs_schedule_run WHERE name = 'often')"
ITS_JOB = f"(SELECT job_id FROM jobs_schedule_run WHERE run_id = {A_RUN})"
OTHER_ID = "00000000000000000000000000000000"
REST = "name, nominal_ticks, cause, job_id, staged_ticks, ended_ticks, outcome"
DOUBLED_RUN = f"SELECT '{OTHER_ID}', {REST} FROM jobs_schedule_run WHERE run_id = {A_RUN}"
DOUBLED_EFFECT = f"SELECT job_id, attempt, process FROM effect WHERE job_id = {ITS_JOB}"
FEWER = "replace(detail, '1000 or more', '999')"
SECOND = 10_000_000
TAMPERED = [
    (f"DELETE FROM jobs_schedule_run WHERE run_id = {A_RUN}", "was decided 0 times"),
    (
        f"INSERT INTO jobs_schedule_run (run_id, {REST}) {DOUBLED_RUN}",
        "was decided 2 times",
    ),
    (f"DELETE FROM jobs_job WHERE job_id = {ITS_JOB}", "has no job"),
    (f"DELETE FROM jobs_schedule_run WHERE run_id = {A_RUN}", "has no run"),
    (
        f"UPDATE jobs_schedule_run SET nominal_ticks = nominal_ticks + 1 WHERE run_id = {A_RUN}",
        "is none of its slots",
    ),
    (
        f"UPDATE jobs_schedule_run SET nominal_ticks = nominal_ticks + 1 WHERE run_id = {A_RUN}",
        "is for slot",
    ),
    (
        f"UPDATE jobs_schedule_run SET run_id = '{OTHER_ID}' WHERE run_id = {A_RUN}",
        "has the identity of another",
    ),
    (
        f"UPDATE jobs_schedule_run SET staged_ticks = nominal_ticks - 1 WHERE run_id = {A_RUN}",
        "was staged before its slot",
    ),
    (f"UPDATE jobs_schedule_run SET open_name = name WHERE run_id = {A_RUN}", "has not ended"),
    (f"UPDATE jobs_schedule_run SET ended_ticks = NULL WHERE run_id = {A_RUN}", "has not ended"),
    (
        f"UPDATE jobs_schedule_run SET outcome = 'failed' WHERE run_id = {A_RUN}",
        "is failed, but its job succeeded",
    ),
    (f"DELETE FROM effect WHERE job_id = {ITS_JOB}", "succeeded without an effect"),
    (
        f"INSERT INTO effect (job_id, attempt, process) {DOUBLED_EFFECT}",
        "effects of the attempts [1, 1]",
    ),
    ("UPDATE effect SET attempt = 2", "effects of the attempts [2]"),
    ("DELETE FROM jobs_schedule_action WHERE kind = 'overlapped'", "was decided 0 times"),
    ("DELETE FROM jobs_schedule_action WHERE kind = 'dropped'", "was decided 0 times"),
    (
        f"UPDATE jobs_schedule_action SET detail = {FEWER} WHERE kind = 'dropped'",
        "999 slots were dropped",
    ),
    ("UPDATE jobs_schedule SET fired_count = fired_count + 1 WHERE name = 'often'", "fired_count is"),
    ("UPDATE jobs_schedule SET misfired_count = 0 WHERE name = 'down'", "misfired_count is 0, but 1000"),
    ("UPDATE jobs_schedule SET overlapped_count = 0 WHERE name = 'often'", "overlapped_count is 0, but"),
    (
        f"UPDATE jobs_schedule SET last_nominal_ticks = last_nominal_ticks + {SECOND} WHERE name = 'often'",
        "was decided 0 times",
    ),
    ("UPDATE jobs_schedule SET next_fire_ticks = 1 WHERE name = 'often'", "its next slot is"),
    ("UPDATE jobs_job SET completed_ticks = NULL", "without the time of its end"),
]


async def test_it_finds_each_thing_that_is_tampered_with(scheduling: Scheduling) -> None:
    await scheduling.declare(
        ago=timedelta(hours=1), often={"interval": 1, "misfire": "skip"}, down={"interval": 2}
    )
    overlap = asyncio.Event()

    async def first_runs_on(context: ScheduleContext) -> None:
        await overlap.wait()

    async with scheduling.host(behave=first_runs_on):
        await eventually(lambda: overlapped(scheduling))
        overlap.set()
        await eventually(lambda: ended(scheduling, 2))
        await scheduling.over()
    assert await scheduling.faults() == []
    missed = [await found_of(scheduling, *tampering) for tampering in TAMPERED]
    assert [each for each in missed if each is not None] == []


async def test_it_tells_a_schedule_that_has_stopped_or_moved(scheduling: Scheduling) -> None:
    await scheduling.declare(hourly={"interval": 3600})
    assert await scheduling.faults(halted=False) == []
    assert "its next slot is" in (await scheduling.faults())[0]
    await scheduling.over()
    assert "its next slot is None instead of" in (await scheduling.faults(halted=False))[0]


async def found_of(scheduling: Scheduling, statement: str, fault: str) -> str | None:
    """What was tampered with and not found; it is rolled back in the end."""
    async with scheduling.engine.connect() as connection:
        changed = await connection.execute(text(statement))
        found = await connection.run_sync(scheduling.audit)
        await connection.rollback()
    assert changed.rowcount, f"{statement}: changed nothing"
    return None if any(fault in each for each in found) else f"{statement}: found only {found}"


async def overlapped(scheduling: Scheduling) -> bool:
    return (await scheduling.state("often")).overlapped > 0


async def ended(scheduling: Scheduling, count: int) -> bool:
    return await scheduling.succeeded("often") >= count
