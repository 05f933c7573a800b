"""Resident memory of a relay and a consumer process while a backlog passes through them.

    python -m benchmarks.memory [--backlogs 10000 100000]

The same programs as in production (`selfmanaged relay` and `selfmanaged consume`) on PostgreSQL and RabbitMQ.
What matters is the last column: it must not grow with the backlog.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import asyncpg
import psutil
from rich.console import Console
from rich.table import Table
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.backlog import Backlog, plain_url
from benchmarks.bench_queue import exchange_with_queue
from benchmarks.database import temporary_database
from benchmarks.relay import POSTGRESQL, RABBITMQ
from benchmarks.sink_app import metadata

APP = "benchmarks.sink_app:make_app"
MEBIBYTE = 1024 * 1024


@dataclass(kw_only=True)
class Watched:
    """A process and its resident memory in bytes."""

    name: str
    process: subprocess.Popen[bytes]
    idle: int = 0
    highest: int = 0

    def sample(self) -> None:
        """Look at it once. Raises RuntimeError when it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}")
        self.highest = max(self.highest, psutil.Process(self.process.pid).memory_info().rss)


async def pass_through(
    backlog: Backlog, environment: dict[str, str], events: int
) -> tuple[list[Watched], float]:
    """Let `events` pass through fresh processes; their memory, and the seconds that it took."""
    await backlog.connection.execute("TRUNCATE outbox_message, inbox_receipt")
    watched = [start("relay", environment), start("consume", environment)]
    try:
        await asyncio.sleep(5)  # not a wait for anything: idle is a stretch of time
        for each in watched:
            each.sample()
            each.idle = each.highest
        await backlog.fill(events)
        began = time.perf_counter()
        while (
            await backlog.connection.fetchval(
                "SELECT count(*) FROM inbox_receipt WHERE completed_at IS NOT NULL"
            )
            < events
        ):
            for each in watched:
                each.sample()
            await asyncio.sleep(0.2)
        return watched, time.perf_counter() - began
    finally:
        for each in watched:
            each.process.terminate()
            each.process.wait()


def start(command: str, environment: dict[str, str]) -> Watched:
    """One process of the product."""
    line = [sys.executable, "-m", "relay", command, APP, "--log-level", "warning"]
    return Watched(name=command, process=subprocess.Popen(line, env=os.environ | environment))


async def measure(given: argparse.Namespace) -> None:
    """Measure each backlog and print."""
    table = Table(title="Resident memory in MiB while a backlog passes")
    for column in ("backlog", "seconds", "process", "idle", "highest", "grown by"):
        table.add_column(column, justify="right")
    async with temporary_database(given.database) as url, exchange_with_queue(given.broker) as names:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await engine.dispose()
        direct = await asyncpg.connect(plain_url(url))
        environment = {
            "SELFMANAGED_DATABASE_URL": url,
            "SELFMANAGED_BROKER_URL": given.broker,
            "SELFMANAGED_BROKER__EXCHANGE": names.exchange,
            "SELFMANAGED_BROKER__QUEUE_PREFIX": names.queue_prefix,
        }
        for events in given.backlogs:
            watched, seconds = await pass_through(Backlog(direct, url), environment, events)
            for each in watched:
                sizes = (each.idle, each.highest, each.highest - each.idle)
                shown = [f"{size / MEBIBYTE:.1f}" for size in sizes]
                table.add_row(f"{events:,}", f"{seconds:.0f}", each.name, *shown)
        await direct.close()
    Console().print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backlogs", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--database", default=POSTGRESQL)
    parser.add_argument("--broker", default=RABBITMQ)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
