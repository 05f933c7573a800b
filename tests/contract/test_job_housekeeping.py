"""Final jobs are deleted after the time of their state, if one was given, and gauges show zeros."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobs import ExecutorOptions, JobOptions, Settlement
from jobs.execution.housekeeping import JobHousekeeping
from tests.support.job_bench import NEVER, Bench
from tests.support.job_shop import leases, metadata
from tests.support.jobs import StoredJobs, submission, submissions
from tests.support.telemetry import Recording, recorded_telemetry
from tests.support.waiting import eventually
from uow.sql.clock import DatabaseClock
from uow.sql.lease import LeaseStore

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
OFTEN = {"retention_interval_seconds": 0.05, "diagnostics_interval_seconds": 0.05}
FINAL = ("succeeded", "failed", "cancelled", "interrupted")


def keeping(bench: Bench, *, retention: dict[str, float] | None = None, **options: Any) -> JobHousekeeping:
    kept = {f"{state}_retention_seconds": seconds for state, seconds in (retention or {}).items()}
    stored = StoredJobs(bench.engine, JobOptions(**kept), DatabaseClock(), metadata)
    return JobHousekeeping(
        bench.engine, stored.store, LeaseStore(leases), options=ExecutorOptions(**OFTEN | options)
    )


@contextlib.asynccontextmanager
async def housekeeping(*services: JobHousekeeping) -> AsyncIterator[None]:
    """Keep house while the block runs, then stop."""
    tasks = [asyncio.create_task(service.run()) for service in services]
    try:
        yield
    finally:
        for service in services:
            service.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 20)


async def jobs_in_every_final_state(bench: Bench, count: int = 1) -> None:
    for state in FINAL:
        await bench.submit(*submissions(count, prefix=f"{state}-", max_attempts=1))
        started = (await bench.jobs.claim(limit=count)).started
        if state == "cancelled":
            for job in started:
                await bench.cancel(job.reference.job_id)
        end = {
            "succeeded": Settlement.succeed,
            "failed": lambda reference: Settlement.fail(reference, error_code="e"),
            "cancelled": Settlement.succeed,
            "interrupted": Settlement.interrupt,
        }[state]
        await bench.jobs.settle(*(end(job.reference) for job in started))


async def states(bench: Bench) -> set[str]:
    return {end.state for end in (await bench.ends()).values()}


async def rounds(service: JobHousekeeping, chore: int) -> None:
    """Wait until a chore has been done once more."""
    before = service.health[chore].last_tick
    await eventually(lambda: service.health[chore].last_tick != before)


@ON_ONE_DATABASE
async def test_nothing_is_deleted_unless_a_time_is_given(bench: Bench) -> None:
    await jobs_in_every_final_state(bench)
    before = await bench.jobs.rows()
    service = keeping(bench)
    async with housekeeping(service):
        await rounds(service, 0)
        await rounds(service, 0)
    assert await bench.jobs.rows() == before


async def test_each_state_has_a_time_of_its_own_and_what_is_not_final_stays(bench: Bench) -> None:
    await jobs_in_every_final_state(bench, count=3)
    await bench.submit(submission("queued"))
    service = keeping(
        bench, retention={"failed": 0.0, "interrupted": 0.0, "succeeded": 3600.0}, retention_batch_size=2
    )
    async with housekeeping(service):
        await eventually(lambda: _is(bench, {"succeeded", "cancelled", "queued"}))
        await rounds(service, 0)
    ends = await bench.ends()
    assert [end.state for end in ends.values()].count("succeeded") == 3
    rows = await bench.jobs.rows()
    assert {row["job_id"] for row in rows["jobs_attempt"]} == set(ends) - {"queued"}


async def _is(bench: Bench, wanted: set[str]) -> bool:
    return await states(bench) == wanted


def gauges(recording: Recording) -> dict[tuple[str, str | None, str | None], float]:
    return {
        (point.metric, point.attributes.get("queue"), point.attributes.get("state")): point.value
        for point in recording.points()
        if point.metric in {"jobs.stored_jobs", "jobs.oldest_due.age"}
    }


async def test_stored_jobs_are_shown_by_queue_and_state_with_zeros(bench: Bench) -> None:
    await jobs_in_every_final_state(bench, count=2)
    await bench.submit(*submissions(3, queue="reports"), submission("other", queue="elsewhere"))
    await bench.jobs.claim("reports", limit=1)
    with recorded_telemetry() as recording:
        service = keeping(bench, queues=("default", "reports"))
        async with housekeeping(service):
            await eventually(service.diagnostics._stored.counts)
            shown = gauges(recording)
        assert gauges(recording) == {}, "another process may sample now"
    ages = {key[1]: value for key, value in shown.items() if key[0] == "jobs.oldest_due.age"}
    assert ages.keys() == {"default", "reports", "elsewhere"}
    assert ages["default"] == 0
    assert 0 < ages["reports"] < NEVER
    assert 0 < ages["elsewhere"] < NEVER
    counts = {key[1:]: value for key, value in shown.items() if key[0] == "jobs.stored_jobs"}
    assert counts == {
        (None, "failed"): 2,
        (None, "cancelled"): 2,
        (None, "interrupted"): 2,
        ("default", "queued"): 0,
        ("default", "running"): 0,
        ("reports", "queued"): 2,
        ("reports", "running"): 1,
        ("elsewhere", "queued"): 1,
        ("elsewhere", "running"): 0,
    }


@ON_ONE_DATABASE
async def test_of_two_processes_one_does_each_chore(bench: Bench) -> None:
    services = [keeping(bench, **dict.fromkeys(OFTEN, NEVER)) for _ in range(2)]
    async with housekeeping(*services):
        await eventually(lambda: all(health.last_tick for service in services for health in service.health))
        for chore in range(2):
            assert [service.chores[chore].leading for service in services].count(True) == 1
        sampling = [service for service in services if service.diagnostics._stored.counts()]
        assert len(sampling) == 1
