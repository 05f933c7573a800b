"""An App runs its handlers of jobs on every database, beside its relay and consumers or alone."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.context import HandlerContext
from inbox.handlers import Consumer
from jobs import JobContext, JobRegistry, JobSubmission
from relay.app import App
from relay.schema import SchemaError, add_messaging_tables
from tests.support.apps import QUICK, running
from tests.support.databases import create_tables, engine_for
from tests.support.job_bench import NEVER
from tests.support.waiting import eventually
from uow import SelfManagedUnitOfWork
from uow.contracts import Contracts
from uow.event import Event

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

SCOPE = "shop"
QUICK_JOBS = QUICK | {"executor": {"poll_interval_seconds": 0.1, "stop_grace_seconds": 5}}


@dataclass(frozen=True, kw_only=True)
class Ordered(Event):
    number: int


@dataclass(frozen=True, kw_only=True)
class Invoiced(Event):
    number: int


def make_app(engine: AsyncEngine, registry: JobRegistry, **parts: Any) -> App:
    metadata, contracts = MetaData(), Contracts()
    add_messaging_tables(metadata)
    contracts.register(Ordered, name="shop.ordered", version=1)
    contracts.register(Invoiced, name="shop.invoiced", version=1)
    given = {"options": QUICK_JOBS, "environment": "development"} | parts
    return App(engine=engine, metadata=metadata, contracts=contracts, jobs=[registry], **given)


def job(job_id: str, **fields: Any) -> JobSubmission:
    return JobSubmission.create(
        **{"scope": SCOPE, "job_id": job_id, "handler": "invoices.render"} | fields  # type: ignore[arg-type]
    )


def rendering() -> JobRegistry:
    registry = JobRegistry()

    @registry.handler("invoices.render")
    async def render(context: JobContext) -> str:
        return f"s3://{context.job_id}"

    return registry


async def succeeded(app: App, *job_ids: str) -> None:
    async def all_there() -> bool:
        return all([(await app.jobs.get(SCOPE, job_id)).state == "succeeded" for job_id in job_ids])

    await eventually(all_there)


async def test_events_become_jobs_and_jobs_events(engine: AsyncEngine) -> None:
    registry, sales, seen = JobRegistry(), Consumer("sales"), list[int]()

    @sales.handles(Ordered)
    async def order(event: Ordered, context: HandlerContext) -> None:
        arguments = {"number": event.number}
        context.unit.stage(job(f"invoice-{event.number}", handler="invoices.book", arguments=arguments))

    @registry.handler("invoices.book", transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        unit.enqueue(Invoiced(number=context.arguments["number"]))

    @sales.handles(Invoiced)
    async def finish(event: Invoiced, context: HandlerContext) -> None:
        seen.append(event.number)

    app = make_app(engine, registry, consumers=[sales])
    await create_tables(engine, app.metadata)
    async with running(app.run):
        async with app.unit_of_work() as unit:
            for number in range(5):
                unit.enqueue(Ordered(number=number))
        await eventually(lambda: len(seen) == 5)
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert await app.jobs.list(SCOPE) != []
    await succeeded(app, *(f"invoice-{number}" for number in range(5)))
    await app.close()


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
async def test_an_app_with_nothing_but_jobs_runs_them(engine: AsyncEngine) -> None:
    app = make_app(engine, rendering())
    await create_tables(engine, app.metadata)
    await app.jobs.submit(job("a"))
    async with running(app.run):
        await succeeded(app, "a")
        report = await app.health.report()
        assert report.is_ready
    assert (await app.jobs.get(SCOPE, "a")).result_reference == "s3://a"
    await app.close()


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
async def test_a_process_serves_the_queues_it_is_given(engine: AsyncEngine) -> None:
    options = {"executor": {"queues": ["default", "reports"], "queue_limits": {"reports": 1, "default": 9}}}
    app = make_app(engine, rendering(), options=QUICK_JOBS | options)
    await create_tables(engine, app.metadata)
    await app.jobs.submit_many([job("a"), job("b", queue="reports"), job("c", queue="other")])
    async with running(lambda stop: app.run_jobs(stop, queues=["reports", "other"])):
        await succeeded(app, "b", "c")
    assert (await app.jobs.get(SCOPE, "a")).state == "queued"
    await app.close()


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
async def test_without_its_tables_nothing_runs(engine: AsyncEngine) -> None:
    app = make_app(engine, rendering())
    with pytest.raises(SchemaError):
        await app.run_jobs(asyncio.Event())
    await app.close()


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("no_polling")
async def test_a_job_of_another_process_wakes_an_idle_executor(
    engine: AsyncEngine, database_url: str
) -> None:
    idle = QUICK_JOBS | {"executor": {"poll_interval_seconds": NEVER, "queue_limits": {"default": 1}}}
    app = make_app(engine, rendering(), options=idle)
    await create_tables(engine, app.metadata)
    async with engine_for(database_url) as other_engine:
        other = make_app(other_engine, rendering())
        async with running(app.run_jobs):
            for job_id in ("submitted", "again"):
                await other.jobs.submit(job(job_id))
                await succeeded(other, job_id)
            async with other.unit_of_work() as unit:
                unit.stage(job("staged"))
            await succeeded(other, "staged")
        await other.close()
    await app.close()
