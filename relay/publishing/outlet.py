"""Where a relay sends claimed batches: a broker, or the inbox of the same database."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from sqlalchemy import Connection

from relay.broker import Broker, Publisher, PublishResult
from uow.message import Message


class Outlet(Protocol):
    """What OutboxRelay needs of the place that takes its messages."""

    @property
    def provider(self) -> str:
        """The value of the attribute `provider` in metrics and spans."""
        ...

    async def check(self) -> None:
        """Raises BrokerUnavailableError (or OSError) while nothing can be sent."""
        ...

    async def send(self, messages: Sequence[Message]) -> Sequence[PublishResult]:
        """One verdict per message, in their order; see `relay.broker.Publisher.publish`."""
        ...

    def hand_over(self, connection: Connection, messages: Sequence[Message]) -> Mapping[UUID, PublishResult]:
        """Write what must commit together with the settlement of confirmed messages.

        Returns a verdict for each message that is, after all, not to be published.
        """
        ...

    def handed_over(self) -> None:
        """Told after the commit of a hand-over; does no I/O."""
        ...

    async def close(self) -> None:
        """Close connections; a batch in hand is finished first, within the confirm timeout."""
        ...


class BrokerOutlet:
    """Sends to a broker; there is nothing to write beside the settlement. Connects with the first use."""

    def __init__(self, broker: Broker, *, provider: str) -> None:
        self._broker = broker
        self._provider = provider
        self._publisher: Publisher | None = None

    @property
    def provider(self) -> str:
        """The kind of broker."""
        return self._provider

    async def check(self) -> None:
        """Raises BrokerUnavailableError unless the broker answers."""
        await self._broker.check_connection()

    async def send(self, messages: Sequence[Message]) -> Sequence[PublishResult]:
        """Publish all and wait for the broker's confirms."""
        if self._publisher is None:
            self._publisher = await self._broker.open_publisher()
        return await self._publisher.publish(messages)

    def hand_over(self, connection: Connection, messages: Sequence[Message]) -> Mapping[UUID, PublishResult]:
        """Nothing: the broker has them."""
        return {}

    def handed_over(self) -> None:
        """Nothing to tell."""

    async def close(self) -> None:
        """Close the publisher; the broker itself stays open for others."""
        if self._publisher is not None:
            publisher, self._publisher = self._publisher, None
            await publisher.close()
