"""A host killed at any point of a firing, or of the run after it, neither loses the slot nor doubles it."""

from datetime import timedelta
from typing import Any

import pytest

from tests.faults import freeze
from tests.faults.schedule_program import host_process
from tests.support.process import kill, said
from tests.support.scheduling import Scheduling
from tests.support.waiting import eventually
from uow.ticks import UtcInstant

on_two_databases = pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])
on_one_database = pytest.mark.parametrize("database_kind", ["postgresql"])

HOURLY = {"interval": 3600, "misfire_grace": 7200}


async def killed(scheduling: Scheduling, **part: Any) -> UtcInstant:
    """A slot has come, and the host was killed where it tells; the slot."""
    await scheduling.declare(hourly=HOURLY, ago=timedelta(minutes=61))
    async with host_process(scheduling, **part) as process:
        await said(process, "here")
        await kill(process)
    return scheduling.first["hourly"]


async def calls_after_restart(scheduling: Scheduling, slot: UtcInstant) -> list[tuple[int, str]]:
    """Attempts and processes of the run of that slot, all being well; it is the only one."""
    async with scheduling.host():
        await eventually(lambda: scheduling.succeeded("hourly"))
        await scheduling.over()
    assert await scheduling.faults() == []
    runs = await scheduling.runs("hourly")
    assert [(run.nominal, run.outcome) for run in runs] == [(slot, "succeeded")]
    return scheduling.calls.of(runs[0].job_id)


@on_two_databases
@pytest.mark.parametrize("point", [freeze.TAKEN, freeze.STAGED])
async def test_a_firing_that_was_not_committed_leaves_the_slot_to_the_next_host(
    scheduling: Scheduling, point: str
) -> None:
    slot = await killed(scheduling, frozen_at=point)
    state = await scheduling.state("hourly")
    assert (state.next_fire, state.last_nominal, state.fired) == (slot, None, 0)
    stored = await scheduling.stored()
    assert (stored.runs, stored.jobs.jobs) == ([], [])
    assert await calls_after_restart(scheduling, slot) == [(1, "survivor")]


@on_two_databases
async def test_a_firing_that_was_committed_stands_although_nobody_heard_of_it(scheduling: Scheduling) -> None:
    """Staging and advance are one commit, so that nothing lies between them."""
    slot = await killed(scheduling, frozen_at=freeze.FIRED)
    state = await scheduling.state("hourly")
    assert state.next_fire == scheduling.triggers["hourly"].next_after(slot)
    assert (state.last_nominal, state.fired) == (slot, 1)
    assert len((await scheduling.stored()).jobs.jobs) == 1
    assert await calls_after_restart(scheduling, slot) == [(1, "survivor")]


@on_two_databases
async def test_a_run_whose_effect_was_committed_but_not_its_end_comes_again_as_the_same_run(
    scheduling: Scheduling,
) -> None:
    slot = await killed(scheduling, does="hang")
    (begun,) = await scheduling.runs("hourly")
    assert (begun.attempt, begun.ended, begun.outcome) == (1, None, None)
    assert await calls_after_restart(scheduling, slot) == [(1, "killed"), (2, "survivor")]
    (run,) = await scheduling.runs("hourly")
    assert (run.run_id, run.attempt, run.code) == (begun.run_id, 2, None)
    effects = (await scheduling.stored()).effects
    assert [(row["job_id"], row["attempt"]) for row in effects] == [(run.job_id, 1), (run.job_id, 2)]


@on_one_database
async def test_a_run_whose_record_was_written_but_not_the_end_of_its_job_comes_again(
    scheduling: Scheduling,
) -> None:
    slot = await killed(scheduling, frozen_at=freeze.ENDING)
    (told,) = await scheduling.runs("hourly")
    assert told.ended is not None
    assert told.outcome is None
    assert await calls_after_restart(scheduling, slot) == [(1, "killed"), (2, "survivor")]


@on_one_database
async def test_a_run_whose_job_has_ended_is_recorded_by_the_next_host_and_does_not_come_again(
    scheduling: Scheduling,
) -> None:
    slot = await killed(scheduling, frozen_at=freeze.ENDED)
    (told,) = await scheduling.runs("hourly")
    assert told.outcome is None
    assert await calls_after_restart(scheduling, slot) == [(1, "killed")]
    assert (await scheduling.state("hourly")).last_success is not None
