"""A transactional handler: its rows, its event, its follow-up job and the success of the job are one commit.

python examples/job_transactional.py
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select
from sqlalchemy.ext.asyncio import create_async_engine

from jobs import JobContext, JobRegistry, JobSubmission, RetryPolicy, job_tables
from outbox import outbox_table
from relay import App, add_messaging_tables
from uow import Backoff, Contracts, Event, SelfManagedUnitOfWork, prepare_sqlite

metadata = MetaData()
contracts = Contracts()
registry = JobRegistry()
booking = Table(
    "booking", metadata, Column("number", Integer, primary_key=True), Column("account", String(50))
)
add_messaging_tables(metadata)

SOON_AGAIN = RetryPolicy(on=(ConnectionError,), backoff=Backoff(initial_seconds=0.1))


@contracts.event("ledger.booked", version=1)
@dataclass(frozen=True, kw_only=True)
class Booked(Event):
    account: str


@registry.handler("ledger.book", transactional=True, retry=SOON_AGAIN)
async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
    account = context.arguments["account"]
    await unit.session.execute(insert(booking).values(account=account))
    unit.enqueue(Booked(account=account))
    unit.stage(
        JobSubmission.create(scope="ledger", job_id=f"statement-{account}", handler="ledger.send_statement")
    )
    if context.attempt == 1:
        print("attempt 1: all is written, then the connection to the bank breaks")
        raise ConnectionError("the bank does not answer")
    print(f"attempt {context.attempt}: all is written")


@registry.handler("ledger.send_statement")
async def send_statement(context: JobContext) -> None:
    """A plain handler: it acts outside of the database, so it may act twice when its process dies."""


async def tell(app: App) -> None:
    await app.jobs.submit(
        JobSubmission.create(
            scope="ledger", job_id="book-7", handler="ledger.book", arguments={"account": "savings"}
        )
    )
    job = await app.jobs.wait("ledger", "book-7")
    for attempt in await app.jobs.attempts("ledger", "book-7"):
        print(f"attempt {attempt.ordinal} in the database: {attempt.state}")
    print(f"{job.job_id}: {job.state};", await count(app))


async def count(app: App) -> str:
    tables = (booking, outbox_table(metadata), job_tables(metadata).job)
    async with app.unit_of_work() as unit:
        rows, events, jobs = [
            await unit.session.scalar(select(func.count()).select_from(table)) for table in tables
        ]
    return f"{rows} booking, {events} event, {jobs} jobs"


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'ledger.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        app = App(engine=engine, metadata=metadata, contracts=contracts, jobs=[registry])
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(app.run_jobs(stop))
            await tell(app)
            stop.set()
        await app.close()
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
