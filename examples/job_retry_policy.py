"""Nothing is retried unless its handler says so: by exception, with a back-off, within the job's attempts.

python examples/job_retry_policy.py
"""

import asyncio
import tempfile
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from jobs import JobContext, JobFailure, JobRegistry, JobSubmission, RetryPolicy
from relay import App, add_messaging_tables
from uow import Backoff, Contracts, RetryAfter, prepare_sqlite

metadata = MetaData()
registry = JobRegistry()  # JobRegistry(retry=...) would be the policy of all its handlers
add_messaging_tables(metadata)

THROUGH_OUTAGES = RetryPolicy(
    on=(ConnectionError,),
    give_up_on=(ConnectionRefusedError,),
    backoff=Backoff(initial_seconds=0.1, maximum_seconds=1),
)


@registry.handler("mail.send", retry=THROUGH_OUTAGES)
async def send(context: JobContext) -> None:
    match context.arguments:
        case "busy" if context.attempt == 1:
            raise RetryAfter(0.1, "the server asks to come back")  # needs no policy
        case "flaky" if context.attempt < 3:
            raise ConnectionResetError("the line broke")
        case "closed":
            raise ConnectionRefusedError("nobody listens")
        case "unknown":
            raise JobFailure("no_such_recipient", "nobody has this address")
        case "down":
            raise ConnectionResetError("the line broke")


async def tell(app: App) -> None:
    for recipient in ("busy", "flaky", "closed", "unknown", "down"):
        await app.jobs.submit(
            JobSubmission.create(
                scope="shop", job_id=recipient, handler="mail.send", arguments=recipient, max_attempts=3
            )
        )
        job = await app.jobs.wait("shop", recipient)
        attempts = await app.jobs.attempts("shop", recipient)
        print(f"{recipient}: {job.state};", ", ".join(each.error_code or each.state for each in attempts))
    print("an operator retries what was refused:", await app.jobs.retry("shop", "closed"))
    job = await app.jobs.wait("shop", "closed")
    print(f"closed: {job.state} after {job.attempt_count} attempts, {job.attempts_left} left")
    print("and what has none left:", await app.jobs.retry("shop", "down"))


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'shop.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        app = App(engine=engine, metadata=metadata, contracts=Contracts(), jobs=[registry])
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(app.run_jobs(stop))
            await tell(app)
            stop.set()
        await app.close()
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
