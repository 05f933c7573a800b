"""A broker behind kombu: publishers and subscriptions with threads of their own, questions in passing."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from relay.broker import (
    BrokerFeatures,
    BrokerUnavailableError,
    ConsumerBinding,
    DeadDelivery,
    TopologyPart,
)
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.driver import Driver, Visit
from relay.kombu_broker.fault import ConnectionLost, describe_fault
from relay.kombu_broker.names import TopologyNames
from relay.kombu_broker.publisher import ThreadedPublisher
from relay.kombu_broker.subscription import ThreadedSubscription
from relay.kombu_broker.waiting import in_thread

T = TypeVar("T")


class KombuBroker:
    """See `relay.broker.Broker`."""

    def __init__(self, connector: Connector, driver: Driver) -> None:
        self._connector = connector
        self._driver = driver
        self._names = TopologyNames(connector.options)
        self._open: set[ThreadedPublisher | ThreadedSubscription] = set()

    def __repr__(self) -> str:
        return f"KombuBroker({self.display_url!r})"

    @property
    def features(self) -> BrokerFeatures:
        """What this transport can promise."""
        return self._connector.traits.features

    @property
    def display_url(self) -> str:
        """The address without user and password."""
        return self._connector.address.display_url

    async def open_publisher(self) -> ThreadedPublisher:
        """A publisher; it connects when it publishes first."""
        name = "selfmanaged publisher"
        publisher = ThreadedPublisher(
            lambda: self._driver.publishing(name), self._connector.options, name=name
        )
        self._keep(publisher)
        return publisher

    async def open_subscription(self, binding: ConsumerBinding, *, prefetch: int) -> ThreadedSubscription:
        """A subscription; it begins to connect now. Raises TopologyError for a name that cannot be."""
        if prefetch < 1:
            raise ValueError(f"prefetch must be at least 1, not {prefetch}")
        self._names.check([binding])
        self._driver.learn([binding])
        name = f"selfmanaged consumer {binding.consumer}"
        open_consuming = self._driver.consuming(binding, prefetch=prefetch, name=name)
        subscription = ThreadedSubscription(open_consuming, self._connector.options, name=name)
        self._keep(subscription)
        return subscription

    async def declare_topology(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Create what is missing."""
        self._names.check(bindings)
        self._driver.learn(bindings)
        return await self._visit(lambda visit: visit.topology.declare(bindings))

    async def check_topology(self, bindings: Sequence[ConsumerBinding]) -> list[TopologyPart]:
        """Look only."""
        self._names.check(bindings)
        self._driver.learn(bindings)
        return await self._visit(lambda visit: visit.topology.check(bindings))

    async def check_connection(self) -> None:
        """Connect, and raise BrokerUnavailableError when that fails."""
        await self._visit(lambda _visit: None)

    async def count_dead(self, consumers: Sequence[str]) -> dict[str, int]:
        """How many messages each dead queue holds."""
        return await self._visit(lambda visit: visit.dead_queue.count(consumers))

    async def list_dead(self, consumer: str, *, limit: int) -> list[DeadDelivery]:
        """The first messages of a dead queue."""
        return await self._visit(lambda visit: visit.dead_queue.list(consumer, limit))

    async def requeue_dead(self, consumer: str, *, limit: int) -> int:
        """Move messages back to the consumer's queue."""
        return await self._visit(lambda visit: visit.dead_queue.requeue(consumer, limit))

    async def drop_dead(self, consumer: str, *, limit: int) -> int:
        """Remove messages for ever."""
        return await self._visit(lambda visit: visit.dead_queue.drop(consumer, limit))

    async def close(self) -> None:
        """Close what is still open; bounded by the options' timeouts."""
        await asyncio.gather(*(each.close() for each in self._open))
        self._open.clear()

    def _keep(self, opened: ThreadedPublisher | ThreadedSubscription) -> None:
        self._open = {each for each in self._open if not each.closed}
        self._open.add(opened)

    async def _visit(self, work: Callable[[Visit], T]) -> T:
        return await in_thread("selfmanaged visit", lambda: self._visit_now(work))

    def _visit_now(self, work: Callable[[Visit], T]) -> T:
        try:
            visit = self._driver.visit("selfmanaged visit")
        except ConnectionLost as error:
            raise self._unavailable(error) from None
        try:
            return work(visit)
        except visit.faults as error:
            raise self._unavailable(error) from None
        finally:
            visit.close()

    def _unavailable(self, error: Exception) -> BrokerUnavailableError:
        return BrokerUnavailableError(f"the broker at {self.display_url} failed: {describe_fault(error)}")
