"""Jobs belong to a scope, such as a tenant: the same id is another job there, and nobody sees over the fence.

python examples/job_two_scopes.py
"""

import asyncio
import tempfile
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from jobs import JobContext, JobNotFoundError, JobRegistry, JobSubmission
from relay import App, add_messaging_tables
from uow import Contracts, prepare_sqlite

metadata = MetaData()
registry = JobRegistry()
add_messaging_tables(metadata)


@registry.handler("reports.write")
async def write_report(context: JobContext) -> str:
    # The scope itself is not stored: what the work needs of the tenant is an argument.
    return f"{context.arguments['tenant']}/{context.job_id}.pdf"


def report(tenant: str, job_id: str) -> JobSubmission:
    return JobSubmission.create(
        scope=tenant, job_id=job_id, handler="reports.write", arguments={"tenant": tenant}
    )


async def tell(app: App) -> None:
    await app.jobs.submit_many([report("acme", "june"), report("globex", "june"), report("acme", "july")])
    for tenant in ("acme", "globex"):
        jobs = await app.jobs.list(tenant)
        print(f"{tenant} sees", ", ".join(sorted(job.job_id for job in jobs)))
    try:
        await app.jobs.get("globex", "july")
    except JobNotFoundError as error:
        print("globex looks at july:", error)
    print("globex cancels july:", await app.jobs.cancel("globex", "july"))
    print("globex cancels june:", await app.jobs.cancel("globex", "june"))

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run_jobs(stop))  # one executor for all scopes
        for tenant, job_id in (("acme", "june"), ("acme", "july"), ("globex", "june")):
            job = await app.jobs.wait(tenant, job_id)
            print(f"{job_id} of {tenant}: {job.state}, see {job.result_reference}")
        stop.set()


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'reports.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        app = App(engine=engine, metadata=metadata, contracts=Contracts(), jobs=[registry])
        await tell(app)
        await app.close()
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
