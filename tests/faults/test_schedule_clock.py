"""Hosts whose clocks are wrong by minutes fire nothing early, late or twice, and the report tells of them."""

import pytest

from tests.faults.schedule_program import host_process
from tests.faults.test_schedule_hosts import stopped
from tests.support.process import said
from tests.support.scheduling import Scheduling
from tests.support.waiting import eventually
from uow.ticks import TICKS_PER_SECOND

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])

SKEW_SECONDS = 180
LATEST_SECONDS = 5.0
SECONDLY = {"cron": "* * * * * *", "overlap": "allow"}
"""Cron, since an interval keeps to its stored slots whatever a clock says."""


async def test_hosts_three_minutes_ahead_and_behind_keep_to_the_clock_of_the_database(
    scheduling: Scheduling,
) -> None:
    """Each hosts alone for a while, and both together in between."""
    await scheduling.declare(secondly=SECONDLY)
    async with host_process(
        scheduling, process="ahead", ahead_seconds=SKEW_SECONDS, lease_seconds=3
    ) as ahead:
        await said(ahead, "runs")
        since = await scheduling.now()
        await come(scheduling, 2)
        async with host_process(
            scheduling, process="behind", ahead_seconds=-SKEW_SECONDS, lease_seconds=3
        ) as behind:
            await eventually(lambda: are_told(scheduling, ahead.pid, behind.pid))
            await come(scheduling, 1)
            await stopped(ahead)
            await come(scheduling, 2)
            await scheduling.over()
            await stopped(behind)
    assert await scheduling.faults() == []
    for run in await scheduling.runs("secondly"):
        assert run.started is not None
        late = run.started.ticks - max(run.nominal, since).ticks
        assert run.started.ticks - run.nominal.ticks >= 0
        assert late < LATEST_SECONDS * TICKS_PER_SECOND
        assert scheduling.calls.of(run.job_id) in ([(1, "ahead")], [(1, "behind")])


async def are_told(scheduling: Scheduling, *processes: int) -> bool:
    """Whether the report tells of the clocks of both, and in which direction each is wrong."""
    problems = (await scheduling.app().schedules.report()).problems
    sides = zip(processes, ("ahead of", "behind"), strict=True)
    return all(
        any(f":{process}:" in each and f"180.0 s {side} the database's" in each for each in problems)
        for process, side in sides
    )


async def come(scheduling: Scheduling, count: int) -> None:
    """So many slots more have been run."""
    before = await scheduling.succeeded("secondly")

    async def have_come() -> bool:
        return await scheduling.succeeded("secondly") >= before + count

    await eventually(have_come, 20, interval=0.05)
