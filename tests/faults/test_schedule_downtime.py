"""After a month without a host schedules are current again at once, and what was missed is told."""

from datetime import timedelta

import pytest

from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.run_record import RunRecord
from tests.faults.schedule_program import host_process
from tests.support.process import kill, said
from tests.support.scheduling import Scheduling
from tests.support.waiting import eventually
from uow.ticks import UtcInstant

MONTH = timedelta(days=30, seconds=-30)
"""Slots come half a minute after the start of a test, when it is over."""
MINUTE = 60 * 10_000_000
LIMIT = 12
MINUTELY = {"interval": 60}
EACH = MINUTELY | {"misfire": "catch_up", "catch_up_limit": LIMIT}
BOUND_SECONDS = 15.0


async def is_current(scheduling: Scheduling) -> bool:
    """Whether each schedule has its next slot in the future."""
    now = await scheduling.now()
    return all(state.next_fire is not None and state.next_fire > now for state in await scheduling.states())


async def dropped(scheduling: Scheduling, name: str) -> str | None:
    """What is recorded of the slots that are not made up for: one sentence."""
    (action,) = [each for each in await scheduling.app().schedules.actions(name) if each.kind == "dropped"]
    return action.detail


def minutes_before(instant: UtcInstant, minutes: int) -> UtcInstant:
    return UtcInstant(instant.ticks - minutes * MINUTE)


def made_up_for(runs: list[RunRecord]) -> list[UtcInstant]:
    """The slots of runs in the order in which they began."""
    begun = [(run.started, run.nominal) for run in runs if run.started is not None]
    return [nominal for _, nominal in sorted(begun)]


def last_minutes(newest: UtcInstant) -> list[UtcInstant]:
    return [minutes_before(newest, ago) for ago in reversed(range(LIMIT))]


@pytest.mark.parametrize("database_kind", ["sqlite", "postgresql", "mariadb"])
async def test_each_policy_is_current_at_once_and_tells_what_it_has_left_out(scheduling: Scheduling) -> None:
    skip = MINUTELY | {"misfire": "skip", "misfire_grace": 0}
    await scheduling.declare(ago=MONTH, latest=MINUTELY, skip=skip, each=EACH)
    async with scheduling.host():
        await eventually(lambda: is_current(scheduling), BOUND_SECONDS)
        await scheduling.over()
    assert await scheduling.faults() == []
    everything = f"1000 or more slots missed, from {scheduling.first['latest']} to "

    (newest,) = await scheduling.runs("latest")
    assert await dropped(scheduling, "latest") == f"{everything}{minutes_before(newest.nominal, 1)}"

    assert await scheduling.runs("skip") == []
    assert await dropped(scheduling, "skip") == f"{everything}{newest.nominal}"

    runs = await scheduling.runs("each")
    assert await dropped(scheduling, "each") == f"{everything}{minutes_before(runs[0].nominal, 1)}"
    assert made_up_for(runs) == last_minutes(newest.nominal)
    assert [run.cause for run in runs] == [Cause.MISFIRE] * (LIMIT - 1) + [Cause.SCHEDULE]


@pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])
async def test_a_host_that_is_killed_while_it_makes_up_for_slots_is_followed_in_its_place(
    scheduling: Scheduling,
) -> None:
    await scheduling.declare(ago=MONTH, each=EACH)
    async with host_process(scheduling, does="hang_at_third") as process:
        await said(process, "here")
        await kill(process)
    async with scheduling.host():
        await eventually(lambda: is_current(scheduling), BOUND_SECONDS)
        await scheduling.over()
    assert await scheduling.faults() == []
    runs = await scheduling.runs("each")
    assert made_up_for(runs) == last_minutes(runs[-1].nominal)
    calls = [(call.job_id, call.process) for call in scheduling.calls.read()]
    assert calls == [
        *((run.job_id, "killed") for run in runs[:3]),
        *((run.job_id, "survivor") for run in runs[2:]),
    ]
