"""A sample of how many messages are stored, for the gauges."""

import logging
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.state import ReceiptState
from inbox.store import InboxStore
from inbox.view import InboxCounts
from outbox.failure import OutboxCounts
from outbox.state import OutboxState
from outbox.store import OutboxStore
from relay.broker import Broker
from uow.errors import TryAgainError
from uow.loop.step import loop_step
from uow.secret import describe_error
from uow.telemetry import StoredMessages

DEAD_QUEUE: Final = "dead_queue"
"""The value of the attribute `queue` for what lies in the dead queues of the broker."""

_log: Final = logging.getLogger(__name__)


class Diagnostics:
    """Counts unfinished and dead messages of outbox, inbox and the broker's dead queues, zeros included.

    `dead_deliveries` holds the last count of each consumer's dead queue; a broker that is away leaves it
    as it was.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        outbox: OutboxStore,
        inbox: InboxStore,
        *,
        provider: str,
        broker: Broker | None = None,
        consumers: Sequence[str] = (),
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._inbox = inbox
        self._broker = broker
        self._consumers = tuple(consumers)
        self._stored = StoredMessages(provider)
        self.dead_deliveries: dict[str, int] = {}

    async def sample(self) -> bool:
        """Take one sample; there is never more to do."""
        outbox, inbox = await loop_step(self._engine, self._count)
        counts = {
            ("outbox", OutboxState.PENDING.value): outbox.pending,
            ("outbox", OutboxState.PUBLISHING.value): outbox.publishing,
            ("outbox", OutboxState.DEAD_LETTERED.value): outbox.dead_lettered,
            ("inbox", ReceiptState.RECEIVED.value): inbox.received,
            ("inbox", ReceiptState.PROCESSING.value): inbox.processing,
            ("inbox", ReceiptState.FAILED.value): inbox.failed,
            ("inbox", ReceiptState.DEAD_LETTERED.value): inbox.dead_lettered,
        }
        if self._broker is not None:
            await self._count_dead_deliveries(self._broker)
            counts[DEAD_QUEUE, OutboxState.DEAD_LETTERED.value] = sum(self.dead_deliveries.values())
        ages = {
            "outbox": outbox.oldest_unfinished_age_seconds,
            "inbox": inbox.oldest_unfinished_age_seconds,
        }
        self._stored.report(counts, ages)
        return False

    def clear(self) -> None:
        """Observe nothing: another process samples."""
        self._stored.clear()

    def _count(self, connection: Connection) -> tuple[OutboxCounts, InboxCounts]:
        return self._outbox.counts(connection), self._inbox.counts(connection)

    async def _count_dead_deliveries(self, broker: Broker) -> None:
        try:
            self.dead_deliveries = await broker.count_dead(self._consumers)
        except (TryAgainError, OSError) as error:
            _log.warning("the broker's dead queues could not be counted: %s", describe_error(error))
