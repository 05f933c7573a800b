"""How many no-op jobs an executor drains a second, beside other job queues on the same PostgreSQL.

    python -m benchmarks.jobs [--jobs 10000] [--batch 200] [--rounds 3] [--peers PYTHON]

PYTHON is the interpreter of an environment that has pgqueuer and procrastinate. All take turns in one run,
each in a process and a database of its own, so that the ratios mean something on any machine; seconds do not.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import MetaData, func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from benchmarks.backlog import plain_url
from benchmarks.database import temporary_database
from jobs import (
    ExecutorOptions,
    JobCompletionParticipant,
    JobContext,
    JobExecutor,
    JobRegistry,
    Jobs,
    JobStore,
    JobSubmission,
    add_job_tables,
)
from uow import SelfManagedUnitOfWork, prepare_sqlite
from uow.sql.lease import LeaseStore, add_lease_table

SERVERS = {
    "postgresql": "postgresql+asyncpg://root@127.0.0.1:5432/test",
    "mariadb": "mysql+asyncmy://root@127.0.0.1:3306/test",
}
PEERS = {
    "pgqueuer": Path(__file__).parent / "peers" / "pgqueuer_jobs.py",
    "procrastinate": Path(__file__).parent / "peers" / "procrastinate_jobs.py",
}


async def drain(url: str, count: int, batch: int) -> float:
    """Jobs per second of one executor, from its start until the last handler has ended and all is settled."""
    metadata, registry, done = MetaData(), JobRegistry(), asyncio.Event()
    store, leases = JobStore(add_job_tables(metadata)), LeaseStore(add_lease_table(metadata))
    engine = create_async_engine(url)
    prepare_sqlite(engine)
    sessions = async_sessionmaker(engine)
    left = count

    @registry.handler("noop")
    async def noop(context: JobContext) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    await submit(Jobs(sessions, store), count)
    executor = JobExecutor(
        engine,
        store,
        [registry],
        leases=leases,
        unit_of_work=lambda: SelfManagedUnitOfWork(sessions, [JobCompletionParticipant(store)]),
        options=ExecutorOptions(concurrency=batch),
    )
    began = time.perf_counter()
    running = asyncio.create_task(executor.run())
    await done.wait()
    executor.stop()
    await running
    seconds = time.perf_counter() - began
    job = store.ground.job
    async with engine.connect() as connection:
        states = (await connection.execute(select(job.c.state, func.count()).group_by(job.c.state))).all()
    await engine.dispose()
    if [tuple(row) for row in states] != [("succeeded", count)]:
        raise RuntimeError(f"not all of {count} jobs succeeded: {states}")
    return count / seconds


async def submit(jobs: Jobs, count: int) -> None:
    """Store so many jobs."""
    for first in range(0, count, 1000):
        numbers = range(first, min(count, first + 1000))
        await jobs.submit_many(
            [JobSubmission.create(scope="bench", job_id=str(number), handler="noop") for number in numbers]
        )


async def measured(arguments: list[str]) -> float:
    """What a process of its own prints as JSON."""
    run = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{run.stderr[-2000:]}")
    rate: float = json.loads(run.stdout.splitlines()[-1])["jobs_per_second"]
    return rate


async def one_round(jobs: int, batch: int, peers: str | None) -> dict[str, float]:
    """Jobs per second of everyone."""
    numbers = [str(jobs), str(batch)]
    ours = [sys.executable, "-m", "benchmarks.jobs", "--one"]
    rates: dict[str, float] = {}
    for name, server in SERVERS.items():
        async with temporary_database(server) as url:
            rates[f"ours, {name}"] = await measured([*ours, url, *numbers])
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite+aiosqlite:///{directory}/jobs.db"
        rates["ours, sqlite"] = await measured([*ours, url, *numbers])
    for name, program in PEERS.items() if peers else ():
        async with temporary_database(SERVERS["postgresql"]) as url:
            rates[name] = await measured([str(peers), str(program), plain_url(url), *numbers])
    return rates


async def compare(jobs: int, batch: int, rounds: int, peers: str | None) -> None:
    """Print the median of each, and its ratio to ours on PostgreSQL."""
    taken = [await one_round(jobs, batch, peers) for _ in range(rounds)]
    medians = {name: statistics.median(each[name] for each in taken) for name in taken[0]}
    ours = medians["ours, postgresql"]
    table = Table(title=f"{jobs} no-op jobs, batches of {batch}, medians of {rounds} rounds in turn")
    for column in ("who", "jobs/s", "ours on PostgreSQL is"):
        table.add_column(column, justify="left" if column == "who" else "right")
    for name, rate in medians.items():
        table.add_row(
            name, f"{rate:,.0f}", "" if name.startswith("ours") else f"{ours / rate:.2f} times as fast"
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Drain no-op jobs.")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", help="the interpreter of an environment with pgqueuer and procrastinate")
    parser.add_argument("--one", nargs=3, metavar=("URL", "JOBS", "BATCH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        url, jobs, batch = arguments.one
        print(json.dumps({"jobs_per_second": asyncio.run(drain(url, int(jobs), int(batch)))}))
    else:
        asyncio.run(compare(arguments.jobs, arguments.batch, arguments.rounds, arguments.peers))


if __name__ == "__main__":
    main()
