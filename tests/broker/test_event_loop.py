"""No broker work happens on the event loop."""

import asyncio
import time

from relay.broker import Disposition, Publisher
from tests.support.brokers import BrokerGround, make_message, publish, receive
from tests.support.proxy import TcpProxy

# waiting for a broker in the loop would take one of the timeouts below; less is only a busy machine
LONGEST_STALL_SECONDS = 1.0


class StallWatch:
    """The longest time that the event loop did not come round, while the block ran."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0

    async def __aenter__(self) -> "StallWatch":
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest_seconds = max(self.longest_seconds, time.perf_counter() - before - 0.001)


async def test_publishing_and_consuming_leave_the_event_loop_free(
    ground: BrokerGround, publisher: Publisher
) -> None:
    binding = await ground.declare()
    count = ground.kind.many
    subscription = await ground.broker.open_subscription(binding, prefetch=100)

    async def consume() -> None:
        for _ in range(count):
            for delivery in await receive(subscription, 1, timeout=30):
                subscription.settle(delivery, Disposition.ACKNOWLEDGE)

    async with StallWatch() as watch, asyncio.TaskGroup() as group:
        group.create_task(consume())
        for _ in range(count // 100):
            await publish(publisher, *[make_message() for _ in range(100)])
    assert watch.longest_seconds < LONGEST_STALL_SECONDS


async def test_a_broker_that_does_not_answer_leaves_the_event_loop_free(rabbit: BrokerGround) -> None:
    binding = await rabbit.declare()
    async with TcpProxy.before(rabbit.url) as proxy:
        broker = rabbit.another(
            proxy.through(rabbit.url),
            confirm_timeout_seconds=1.5,
            connect_timeout_seconds=1.5,
            close_timeout_seconds=1.5,
        )
        publisher = await broker.open_publisher()
        subscription = await broker.open_subscription(binding, prefetch=10)
        await publish(publisher, make_message())
        [delivery] = await receive(subscription, 1)
        async with StallWatch() as watch:
            proxy.blackhole()
            await publisher.publish([make_message() for _ in range(100)])
            subscription.settle(delivery, Disposition.ACKNOWLEDGE)
            await broker.close()
        assert watch.longest_seconds < LONGEST_STALL_SECONDS
