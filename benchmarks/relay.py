"""How fast the relay moves events from PostgreSQL to RabbitMQ, as a share of a hand-written limit.

    python -m benchmarks.relay [--events 20000] [--rounds 3]

Both sides move the same events from the same table to the same queue, taking turns in one run, so that the
share means something on any machine; seconds do not.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
from rich.console import Console
from rich.table import Table
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.backlog import Backlog, plain_url
from benchmarks.bench_queue import exchange_with_queue, purge
from benchmarks.database import temporary_database
from benchmarks.hand_written import publish_everything
from outbox import OutboxStore, outbox_table
from relay.kombu_broker import BrokerOptions, open_broker
from relay.publishing.outlet import BrokerOutlet
from relay.publishing.publisher import OutboxRelay
from relay.schema import add_messaging_tables

POSTGRESQL = "postgresql+asyncpg://root@127.0.0.1:5432/test"
RABBITMQ = "amqp://guest:guest@127.0.0.1:5672//"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where one run measures."""

    metadata: MetaData
    backlog: Backlog
    broker_url: str
    names: BrokerOptions
    events: int

    async def rate(self, work: Callable[[], Awaitable[object]]) -> float:
        """Events per second of `work`, which publishes a fresh backlog."""
        await self.backlog.fill(self.events)
        purge(self.broker_url, self.names)
        began = time.perf_counter()
        await work()
        seconds = time.perf_counter() - began
        published = await self.backlog.count("published")
        if published != self.events:
            raise RuntimeError(f"{published} of {self.events} events were published")
        return self.events / seconds

    async def hand_written(self) -> None:
        """The limit."""
        await publish_everything(self.backlog.connection, self.broker_url, self.names.exchange)

    async def product(self) -> None:
        """One relay in this process, from its start until the outbox holds nothing unfinished."""
        engine = create_async_engine(self.backlog.url)
        broker = open_broker(self.broker_url, self.names)
        outlet = BrokerOutlet(broker, provider="rabbitmq")
        relay = OutboxRelay(engine, OutboxStore(outbox_table(self.metadata)), outlet)
        running = asyncio.create_task(relay.run())
        while await self.backlog.unfinished():  # noqa: ASYNC110 - nobody could signal it from another process
            await asyncio.sleep(0.02)
        relay.stop()
        await running
        await broker.close()
        await engine.dispose()


async def measure(database: str, broker_url: str, events: int, rounds: int) -> list[tuple[float, float]]:
    """Events per second of the relay and of the limit, one pair a round."""
    metadata = MetaData()
    add_messaging_tables(metadata)
    async with temporary_database(database) as url, exchange_with_queue(broker_url) as names:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await engine.dispose()
        direct = await asyncpg.connect(plain_url(url))
        bench = Bench(
            metadata=metadata,
            backlog=Backlog(direct, url),
            broker_url=broker_url,
            names=names,
            events=events,
        )
        pairs = [
            (await bench.rate(bench.product), await bench.rate(bench.hand_written)) for _ in range(rounds)
        ]
        await direct.close()
    return pairs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", default=POSTGRESQL, help="a server on which databases may be made")
    parser.add_argument("--broker", default=RABBITMQ)
    given = parser.parse_args()
    pairs = asyncio.run(measure(given.database, given.broker, given.events, given.rounds))
    table = Table(title="RabbitMQ relay, events of about 200 bytes")
    for column in ("round", "relay, events/s", "hand-written, events/s", "share"):
        table.add_column(column, justify="right")
    for number, (ours, limit) in enumerate(pairs, 1):
        table.add_row(str(number), f"{ours:,.0f}", f"{limit:,.0f}", f"{ours / limit:.2f}")
    console = Console()
    console.print(table)
    console.print(f"median share: {statistics.median(ours / limit for ours, limit in pairs):.2f}")


if __name__ == "__main__":
    main()
