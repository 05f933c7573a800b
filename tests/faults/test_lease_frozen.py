"""A holder that is frozen or killed is followed, and one that wakes up later keeps nothing."""

import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.schedule.leasing.held_lease import HeldLease
from jobs.schedule.leasing.lease_error import LeaseHeldError
from jobs.schedule.leasing.named_lease import NamedLeases
from tests.faults.lease_program import metadata, table
from tests.support.databases import create_tables, engine_for
from tests.support.process import kill, program, said
from tests.support.unit_of_work import Model, Order, stored
from tests.support.waiting import eventually
from uow.sql.lease import LeaseStore


@pytest.fixture
async def ready(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with engine_for(database_url) as engine:
        await create_tables(engine, metadata)
        await create_tables(engine, Model.metadata)
        yield engine


@pytest.fixture
def leases(ready: AsyncEngine) -> NamedLeases:
    return NamedLeases(ready, LeaseStore(table))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "go"


@pytest.fixture
async def holder(ready: AsyncEngine, database_url: str, file: Path) -> AsyncIterator[Process]:
    """The process that holds the lease."""
    async with program("tests.faults.lease_program", database_url, str(file)) as process:
        await said(process, "held 1")
        yield process


async def followed(leases: NamedLeases) -> int:
    """The token of the next holder, which has done its work by now."""

    async def hold() -> HeldLease | None:
        try:
            async with leases.hold("month-end", seconds=30) as held:
                return held
        except LeaseHeldError:
            return None

    held = await eventually(hold)
    assert held is not None
    return held.token


async def test_one_that_goes_on_after_another_has_followed_is_refused(
    ready: AsyncEngine, leases: NamedLeases, holder: Process, file: Path
) -> None:
    holder.send_signal(signal.SIGSTOP)
    assert await followed(leases) == 2
    file.touch()
    holder.send_signal(signal.SIGCONT)
    await said(holder, "refused")
    await said(holder, "lost")
    assert await stored(ready, Order) == []


async def test_one_that_goes_on_too_late_is_refused_although_nobody_has_followed(
    ready: AsyncEngine, leases: NamedLeases, holder: Process, file: Path
) -> None:
    holder.send_signal(signal.SIGSTOP)
    await eventually(lambda: _is_free(leases))
    file.touch()
    holder.send_signal(signal.SIGCONT)
    await said(holder, "refused")
    assert await stored(ready, Order) == []


async def test_one_that_was_not_frozen_keeps_what_it_writes(
    ready: AsyncEngine, leases: NamedLeases, holder: Process, file: Path
) -> None:
    with pytest.raises(LeaseHeldError):
        await leases.hold("month-end", seconds=30).__aenter__()
    file.touch()
    await said(holder, "written")
    assert await holder.wait() == 0
    assert await stored(ready, Order) == [1]


async def test_one_that_is_killed_is_followed(leases: NamedLeases, holder: Process) -> None:
    await kill(holder)
    assert await followed(leases) == 2


async def _is_free(leases: NamedLeases) -> bool:
    return await leases.holder("month-end") is None
