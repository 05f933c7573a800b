"""A run that is longer than its period, on two hosts: each overlap policy does what it says."""

import asyncio
from itertools import pairwise

import pytest

from jobs.schedule.storing.run_record import RunRecord
from tests.faults.schedule_program import host_process
from tests.faults.test_schedule_hosts import stopped
from tests.support.process import kill, said
from tests.support.scheduling import Scheduling
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])

PERIOD_SECONDS = 0.4
POLICIES = {policy: {"interval": PERIOD_SECONDS, "overlap": policy} for policy in ("skip", "queue", "allow")}


async def test_runs_longer_than_their_period_overlap_only_where_they_may(scheduling: Scheduling) -> None:
    await scheduling.declare(**POLICIES)
    async with (
        host_process(scheduling, process="first", does="take_a_second", lease_seconds=3) as first,
        host_process(scheduling, process="second", does="take_a_second", lease_seconds=3) as second,
    ):
        await asyncio.gather(said(first, "runs"), said(second, "runs"))
        for policy in POLICIES:
            await eventually(lambda policy=policy: has_succeeded(scheduling, policy, 3), 30)
        await scheduling.over()
        await stopped(first, second)
    assert await scheduling.faults() == []
    states = {state.name: state for state in await scheduling.states()}
    found = {policy: overlaps(await scheduling.runs(policy)) for policy in POLICIES}
    assert found == {"skip": False, "queue": False, "allow": True}
    assert (states["allow"].overlapped, states["allow"].misfired) == (0, 0)
    assert states["skip"].overlapped >= 4
    assert states["queue"].overlapped >= 1


async def test_a_slot_that_waits_runs_after_the_run_before_it_although_its_host_was_killed(
    scheduling: Scheduling,
) -> None:
    await scheduling.declare(queue=POLICIES["queue"])
    async with host_process(scheduling, does="hang") as process:
        await said(process, "here")
        await eventually(lambda: a_slot_waits(scheduling))
        await kill(process)
    waiting = (await scheduling.state("queue")).waiting
    async with scheduling.host():
        await eventually(lambda: has_succeeded(scheduling, "queue", 2))
        await scheduling.over()
    assert await scheduling.faults() == []
    first, second, *_ = await scheduling.runs("queue")
    assert second.nominal == waiting
    assert scheduling.calls.of(first.job_id) == [(1, "killed"), (2, "survivor")]
    assert scheduling.calls.of(second.job_id) == [(1, "survivor")]
    assert not overlaps(await scheduling.runs("queue"))


def overlaps(runs: list[RunRecord]) -> bool:
    """Whether one began before another had ended."""
    times = sorted((run.started, run.ended) for run in runs if run.started and run.ended)
    return any(ended > started for (_, ended), (started, _) in pairwise(times))


async def a_slot_waits(scheduling: Scheduling) -> bool:
    return (await scheduling.state("queue")).waiting is not None


async def has_succeeded(scheduling: Scheduling, name: str, count: int) -> bool:
    return await scheduling.succeeded(name) >= count
