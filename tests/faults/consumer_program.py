"""A consumer host in a process of its own, to be killed: `python -m tests.faults.consumer_program`.

Arguments: database URL, what its handler does with order 0 (`hang` or `die`), and for a broker its URL and
the name of its exchange. It prints a line when the handler of order 0 has written its effect.
"""

import asyncio
import os
import sys

from inbox.options import InboxOptions
from inbox.store import InboxStore
from relay.consuming.host import ConsumerHost
from relay.kombu_broker import BrokerOptions, open_broker
from tests.support.consuming import OrderPlaced, hosted, writing_consumer
from tests.support.databases import engine_for
from tests.support.relaying import QUICK, inbox

OPTIONS = InboxOptions(
    lease_seconds=2,
    max_retry_attempts=2,
    busy_recheck_seconds=0.05,
    busy_wait_limit_seconds=0.2,
    prefetch=8,
    concurrency=4,
)


async def _host(url: str, what: str, *broker: str) -> None:
    async def before(event: OrderPlaced) -> None:
        if event.order != 0:
            return
        sys.stdout.write("here\n")
        sys.stdout.flush()
        if what == "die":
            os._exit(9)
        await asyncio.Event().wait()

    async with engine_for(url) as engine:
        opened = None
        if broker:
            broker_url, name = broker
            opened = open_broker(broker_url, BrokerOptions(exchange=name, queue_prefix=name))
        host = ConsumerHost(
            engine,
            InboxStore(inbox, options=OPTIONS),
            [hosted(engine, writing_consumer("killed", before=before), options=OPTIONS)],
            lease_seconds=OPTIONS.lease_seconds,
            broker=opened,
            options=QUICK,
        )
        await host.run()


if __name__ == "__main__":
    asyncio.run(_host(*sys.argv[1:]))
