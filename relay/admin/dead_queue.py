"""The broker's dead queues: deliveries that could not be recorded as a receipt, kept by the broker."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from relay.admin.failed import check_operator
from relay.admin.operation import Operation, OperationKind, OperationLog, OperationResult
from relay.broker import Broker, DeadDelivery
from relay.consuming.subscription import check_consumer
from uow.errors import FixTheCodeError
from uow.sql.step import run_step

_MOST_AT_ONCE: Final = 10_000


class NoDeadQueueError(FixTheCodeError):
    """There is no broker: `local:` records every delivery, so it has no dead queues."""


class DeadQueues:
    """What operators do about undecodable and conflicting deliveries. Payloads are never shown.

    `limit` is 1 to 10000 everywhere. All raise BrokerUnavailableError, UnknownConsumerError for a consumer
    that this App does not have, and NoDeadQueueError with `local:`.
    """

    def __init__(
        self,
        broker: Broker | None,
        engine: AsyncEngine,
        *,
        consumers: Iterable[str],
        operations: OperationLog,
    ) -> None:
        self._broker = broker
        self._engine = engine
        self._consumers = sorted(consumers)
        self._operations = operations

    async def counts(self) -> dict[str, int]:
        """How many deliveries each consumer's dead queue holds; empty with `local:`."""
        return await self._broker.count_dead(self._consumers) if self._broker else {}

    async def list(self, consumer: str, *, limit: int = 100) -> tuple[DeadDelivery, ...]:
        """The first deliveries of a dead queue, left where they are."""
        return tuple(await self._checked(consumer, limit).list_dead(consumer, limit=limit))

    async def requeue(self, consumer: str, *, operator: str, limit: int = 100) -> int:
        """Give deliveries back to the consumer's queue, the oldest first; returns how many.

        Each is confirmed there before it leaves the dead queue.
        """
        broker, operator = self._checked(consumer, limit), check_operator(operator)
        moved = await broker.requeue_dead(consumer, limit=limit)
        await self._record(OperationKind.REQUEUE_DEAD, consumer, moved, operator)
        return moved

    async def drop(self, consumer: str, *, operator: str, limit: int = 100) -> int:
        """Remove deliveries for ever, the oldest first; returns how many."""
        broker, operator = self._checked(consumer, limit), check_operator(operator)
        dropped = await broker.drop_dead(consumer, limit=limit)
        await self._record(OperationKind.DROP_DEAD, consumer, dropped, operator)
        return dropped

    def _checked(self, consumer: str, limit: int) -> Broker:
        if self._broker is None:
            raise NoDeadQueueError(
                "local: has no dead queues; what failed is in the list of failed messages (`failed list`)"
            )
        check_consumer(consumer, self._consumers)
        if not 1 <= limit <= _MOST_AT_ONCE:
            raise ValueError(f"limit must be between 1 and {_MOST_AT_ONCE}, not {limit}")
        return self._broker

    async def _record(self, kind: OperationKind, consumer: str, count: int, operator: str) -> None:
        operation = Operation(
            kind=kind,
            result=OperationResult.ACCEPTED if count else OperationResult.NOT_FOUND,
            operator=operator,
            queue="broker",
            consumer=consumer,
            message_count=count,
        )
        await run_step(self._engine, lambda c: self._operations.record(c, [operation]))
