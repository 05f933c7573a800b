"""Executors that stand still: one that is blocked keeps its leases, one that is stopped is fenced."""

import asyncio
import contextlib
import signal
import sqlite3
from asyncio.subprocess import Process
from pathlib import Path

import pytest
from sqlalchemy import select

from jobs import JobContext, JobState, job_tables
from tests.faults.executor_process import executor_process
from tests.support.executing import BOOK, MAIL, REPORT, Executing, job, metadata
from tests.support.process import said
from tests.support.waiting import eventually
from uow.sql.sqlite import sqlite_file
from uow.sql.step import run_step

LEASE_SECONDS = 2


async def stop(process: Process, executing: Executing) -> None:
    """It does nothing from now on: its host was suspended, or swaps.

    Not in the middle of a transaction that has locked jobs, since nobody could take those over.
    """
    process.send_signal(signal.SIGSTOP)
    while not await nothing_is_locked(executing):
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGSTOP)


async def nothing_is_locked(executing: Executing) -> bool:
    if (file := sqlite_file(executing.engine)) is not None:
        return _can_write(file)
    job_ids = select(job_tables(metadata).job.c.job_id)
    free = job_ids.with_for_update(skip_locked=True)
    count = len((await executing.stored()).jobs)
    return count == len(await run_step(executing.engine, lambda c: c.execute(free).all()))


def _can_write(file: Path) -> bool:
    with contextlib.closing(sqlite3.connect(file, timeout=0.1)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


@pytest.mark.parametrize(("database_kind", "handler"), [("postgresql", MAIL), ("sqlite", REPORT)])
async def test_a_handler_that_blocks_its_thread_for_three_leases_runs_once(
    executing: Executing, handler: str
) -> None:
    """Even the thread of the event loop; on SQLite its open transaction could then lock out renewals."""
    await executing.submit(job(handler, "long", arguments={"seconds": 3 * LEASE_SECONDS}))
    async with executor_process(
        executing, process="blocked", does="block", lease_seconds=LEASE_SECONDS
    ) as process:
        await eventually(lambda: executing.calls.of("long"), 30)
        async with executing.executor("idle"):
            await executing.submit(job(MAIL, "short"))
            await eventually(lambda: succeeded(executing, "short"))
            assert await executing.states("long") == ("running", ["running"])
            await eventually(lambda: succeeded(executing, "long"), 20)
        process.terminate()
        assert await process.wait() == 0
    assert await executing.states("long") == ("succeeded", ["succeeded"])
    assert executing.calls.of("long") == [(1, "blocked")]
    assert await executing.faults() == []


async def succeeded(executing: Executing, job_id: str) -> bool:
    return (await executing.get(job_id)).state is JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("database_kind", "handlers"),
    [("sqlite", [MAIL]), ("postgresql", [MAIL, BOOK]), ("mariadb", [MAIL, BOOK])],
)
async def test_an_executor_that_was_stopped_beyond_its_leases_changes_nothing_any_more(
    executing: Executing, handlers: list[str], tmp_path: Path
) -> None:
    """On SQLite a transactional handler that is stopped holds the one write lock: nobody could go on."""
    let_old_go_on, let_new_go_on = tmp_path / "old", asyncio.Event()

    async def wait(context: JobContext) -> None:
        await let_new_go_on.wait()

    await executing.submit(*(job(name, arguments={"until": str(let_old_go_on)}) for name in handlers))
    async with executor_process(executing, process="old", does="linger", lease_seconds=LEASE_SECONDS) as old:
        for _ in handlers:
            await said(old, "here")
        await stop(old, executing)
        async with executing.executor("new", wait):
            for name in handlers:
                await eventually(lambda name=name: (2, "new") in executing.calls.of(name))
            let_old_go_on.touch()
            old.send_signal(signal.SIGCONT)
            for _ in handlers:
                await said(old, "progress fenced")
            old.terminate()
            assert await old.wait() == 0
            for name in handlers:
                assert await executing.states(name) == ("running", ["interrupted", "running"])
                assert (await executing.get(name)).progress_percent is None
            assert await executing.faults(at_rest=False) == []
            let_new_go_on.set()
            await executing.until(JobState.SUCCEEDED)
    for name in handlers:
        assert await executing.states(name) == ("succeeded", ["interrupted", "succeeded"])
        assert (await executing.get(name)).result_reference == "new"
        assert executing.calls.of(name) == [(1, "old"), (2, "new")]
    assert await executing.faults() == []
