"""A job tells how far it is; whoever submitted it may look, and may ask for its end.

python examples/job_progress_and_cancel.py
"""

import asyncio
import tempfile
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from jobs import JobContext, JobRegistry, JobSubmission
from relay import App, add_messaging_tables
from uow import Contracts, prepare_sqlite

metadata = MetaData()
registry = JobRegistry()
add_messaging_tables(metadata)


@registry.handler("reports.print")
async def print_report(context: JobContext) -> str:
    pages = context.arguments["pages"]
    try:
        for page in range(1, pages + 1):
            await asyncio.sleep(0.02)  # stands for the work
            await context.progress(100 * page // pages, f"page {page} of {pages}")
    except asyncio.CancelledError:
        print(f"  the handler is asked to end: {context.stop_reason}")
        raise
    return f"reports/{context.job_id}.pdf"  # the result reference: where the result is, not the result


def report(job_id: str, *, pages: int) -> JobSubmission:
    return JobSubmission.create(
        scope="shop", job_id=job_id, handler="reports.print", arguments={"pages": pages}
    )


async def tell(app: App) -> None:
    await app.jobs.submit(report("january", pages=4))
    job = await app.jobs.wait("shop", "january")
    print(f"january: {job.progress_percent} %, {job.progress_message}")
    print(f"january: {job.state}, see {job.result_reference}")

    job = await app.jobs.submit(report("all-years", pages=10_000))
    while not job.progress_message:
        await asyncio.sleep(0.05)
        job = await app.jobs.get("shop", "all-years")
    print("all-years: it has begun, and is not wanted any more")
    answer = await app.jobs.cancel("shop", "all-years")
    job = await app.jobs.wait("shop", "all-years")
    print(f"all-years: cancellation {answer}; {job.state}, see {job.result_reference}")

    await app.jobs.submit(
        JobSubmission.create(scope="shop", job_id="later", handler="reports.print", queue="nightly")
    )
    print("later: nobody serves its queue yet; cancellation:", await app.jobs.cancel("shop", "later"))
    print("later: once more:", await app.jobs.cancel("shop", "later"))


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'shop.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        app = App(engine=engine, metadata=metadata, contracts=Contracts(), jobs=[registry])
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(app.run_jobs(stop))  # a process of its own: selfmanaged jobs shop:app
            await tell(app)
            stop.set()
        await app.close()
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
