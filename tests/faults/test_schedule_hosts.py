"""Several hosts on one database fire each slot once, whoever is killed, frozen or started again meanwhile."""

import asyncio
import contextlib
import random
import signal
from asyncio.subprocess import Process
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.faults import freeze
from tests.faults.schedule_program import host_process
from tests.support.process import kill, said
from tests.support.scheduling import Scheduling
from tests.support.waiting import eventually

OFTEN: dict[str, Any] = {"interval": 0.3, "overlap": "allow", "max_attempts": 20}
LEASE_SECONDS, TAKE_OVER_SECONDS = 1.5, 0.3
LATEST_SECONDS = LEASE_SECONDS + TAKE_OVER_SECONDS + 3.0

on_two_databases = pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])


async def test_hosts_that_all_found_one_slot_make_one_run_of_it(
    scheduling: Scheduling, tmp_path: Path
) -> None:
    await scheduling.declare(hourly={"interval": 3600}, ago=timedelta(minutes=60, seconds=10))
    go_on = tmp_path / "go on"
    part: dict[str, Any] = {"frozen_at": freeze.FOUND, "until": str(go_on), "lease_seconds": 3}
    async with (
        host_process(scheduling, process="first", **part) as first,
        host_process(scheduling, process="second", **part) as second,
        host_process(scheduling, process="third", **part) as third,
    ):
        for each in (first, second, third):
            await said(each, "here")
        go_on.touch()
        await eventually(lambda: scheduling.succeeded("hourly"))
        await stopped(first, second, third)
    assert await scheduling.faults(halted=False) == []
    assert len(scheduling.calls.read()) == 1
    assert len((await scheduling.stored()).effects) == 1


@on_two_databases
async def test_hosts_that_are_killed_at_random_lose_and_double_no_slot(scheduling: Scheduling) -> None:
    chance = random.Random(7)
    await scheduling.declare(often=OFTEN, skipping=OFTEN | {"overlap": "skip"})
    async with contextlib.AsyncExitStack() as stack:
        parts = [host_process(scheduling, process=f"host-{number}", lease_seconds=2) for number in range(4)]
        alive = [await stack.enter_async_context(each) for each in parts]
        await asyncio.gather(*(said(each, "runs") for each in alive))
        while len(alive) > 1:
            await comes(scheduling, chance.randint(1, 6))
            await kill(alive.pop(chance.randrange(len(alive))))
        await comes(scheduling, 6)
        await scheduling.over()
        await stopped(*alive)
    assert await scheduling.faults() == []
    assert {run.outcome for run in await scheduling.runs("often")} == {"succeeded"}


@on_two_databases
async def test_five_restarts_within_a_minute_pile_up_no_runs_and_lose_no_slot(scheduling: Scheduling) -> None:
    """A run that none of them lets end stays one run; two of them are crashes, which use up attempts."""
    began = await scheduling.now()
    await scheduling.declare(long={"interval": 3600}, often=OFTEN, ago=timedelta(minutes=60, seconds=1))
    for number in range(5):
        async with host_process(scheduling, process=f"host-{number}", does="hang_if_long") as process:
            await said(process, "here")
            await (kill(process) if number % 2 else stopped(process))
    assert (await scheduling.now()).ticks - began.ticks < 60 * 10_000_000
    async with scheduling.host():
        await scheduling.over()
    assert await scheduling.faults() == []
    (run,) = await scheduling.runs("long")
    assert run.outcome == "succeeded"
    assert [process for _, process in scheduling.calls.of(run.job_id)] == [
        *(f"host-{number}" for number in range(5)),
        "survivor",
    ]
    assert {run.outcome for run in await scheduling.runs("often")} == {"succeeded"}


async def test_a_leader_that_is_frozen_is_followed_and_fires_nothing_twice_when_it_goes_on(
    scheduling: Scheduling, tmp_path: Path
) -> None:
    """It has found a slot that is due when it is frozen, and tries to fire it when it goes on.

    On SQLite only its host is: the process could keep the file locked.
    """
    is_server = not scheduling.url.startswith("sqlite")
    await scheduling.declare(often=OFTEN, ago=timedelta(seconds=0.5))
    options = {
        "tick_seconds": (LEASE_SECONDS - TAKE_OVER_SECONDS) / 2,
        "take_over_seconds": TAKE_OVER_SECONDS,
    }
    go_on = tmp_path / "go on"
    async with host_process(
        scheduling,
        process="frozen",
        frozen_at=freeze.FOUND,
        until=str(go_on),
        lease_seconds=3,
        options=options,
    ) as frozen:
        await said(frozen, "here")
        assert await leading_process(scheduling) == frozen.pid
        if is_server:
            frozen.send_signal(signal.SIGSTOP)
            go_on.touch()
        async with scheduling.host("follower", **options):
            await eventually(lambda: is_up(scheduling, frozen))
            since = await scheduling.now()
            await eventually(lambda: another_leads(scheduling, frozen))
            await comes(scheduling, 5)
            frozen.send_signal(signal.SIGCONT)
            go_on.touch()
            await comes(scheduling, 10)
            await stopped(frozen)
            await scheduling.over()
    assert await scheduling.faults() == []
    late = [
        (run.staged.ticks - max(run.nominal, since).ticks) / 1e7 for run in await scheduling.runs("often")
    ]
    assert max(late) < LATEST_SECONDS


async def stopped(*processes: Process) -> None:
    """Ask them to stop, as a deployment does, and see that they end well."""
    for each in processes:
        each.terminate()
    async with asyncio.timeout(20):
        assert [await each.wait() for each in processes] == [0] * len(processes)


async def comes(scheduling: Scheduling, count: int) -> None:
    """So many slots more have been fired."""
    before = len(await scheduling.runs("often"))

    async def have_come() -> bool:
        return len(await scheduling.runs("often")) >= before + count

    await eventually(have_come, 30, interval=0.05)


async def is_up(scheduling: Scheduling, other: Process) -> bool:
    """Whether a host has told of itself that is not in this process."""
    hosts = (await scheduling.app().schedules.report()).hosts
    return any(process_of(host.host) != other.pid for host in hosts)


async def leading_process(scheduling: Scheduling) -> int | None:
    leader = (await scheduling.app().schedules.report()).leader
    return None if leader is None else process_of(leader[0])


def process_of(owner: str) -> int:
    return int(owner.split(":")[1])


async def another_leads(scheduling: Scheduling, process: Process) -> bool:
    return await leading_process(scheduling) not in {None, process.pid}
