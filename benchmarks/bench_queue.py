"""An exchange with one bound queue on RabbitMQ, made for one measurement."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from benchmarks.backlog import CONTRACT_NAME
from benchmarks.hand_written import connect
from relay.broker import ConsumerBinding
from relay.kombu_broker import BrokerOptions, open_broker

CONSUMER = "sink"


@asynccontextmanager
async def exchange_with_queue(broker_url: str) -> AsyncIterator[BrokerOptions]:
    """Names of an exchange and a queue, declared as the product declares them; removed at the end."""
    name = f"selfmanaged-benchmark-{uuid4().hex[:8]}"
    options = BrokerOptions(exchange=name, queue_prefix=name)
    broker = open_broker(broker_url, options)
    binding = ConsumerBinding(consumer=CONSUMER, routing_keys=frozenset({f"{CONTRACT_NAME}.v1"}))
    try:
        await broker.declare_topology([binding])
        yield options
    finally:
        await broker.close()
        with connect(broker_url) as connection:
            channel = connection.channel()
            for queue in (f"{name}.{CONSUMER}", f"{name}.{CONSUMER}.dead"):
                channel.queue_delete(queue)
            for exchange in (name, f"{name}.dead"):
                channel.exchange_delete(exchange)


def purge(broker_url: str, options: BrokerOptions) -> None:
    """Empty the queue."""
    with connect(broker_url) as connection:
        connection.channel().queue_purge(f"{options.queue_prefix}.{CONSUMER}")
