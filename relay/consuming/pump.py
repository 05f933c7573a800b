"""The inbox's own pump: retries, receipts handed over locally, and what a dead process has left behind."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.outcome import ConsumeOutcome
from inbox.receipt import ReceiptKey
from inbox.store import InboxStore
from relay.consuming.hosted import HostedConsumer, RunningReceipts
from uow.loop.polling import AdaptivePolling
from uow.loop.slots import Slots
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest, unless_stopped
from uow.telemetry import Operation, record_operation
from uow.wake import Waiter, WakeSignal

_log: Final = logging.getLogger(__name__)
_SUSPECTS_IN_A_ROW: Final = 10


class InboxPump:
    """Claims due receipts of all consumers of this process in one statement, as many as have free slots.

    A suspect, which may be what kills its process, runs while nothing else does: the pump then pauses all
    slots, waits until the running handlers have ended, runs it, and goes on.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: InboxStore,
        consumers: Sequence[HostedConsumer],
        running: RunningReceipts,
        *,
        provider: str,
        wake: WakeSignal,
        poll_interval_seconds: float,
        stop: StopRequest,
    ) -> None:
        self._engine = engine
        self._store = store
        self._consumers = {consumer.name: consumer for consumer in consumers}
        self._running = running
        self._provider = provider
        self._wake = wake
        self._poll_interval_seconds = poll_interval_seconds
        self._stop = stop
        self._slots = tuple(dict.fromkeys(consumer.slots for consumer in consumers))
        self._requests: dict[Slots, asyncio.Future[int]] = {}
        self._chores_due_at = time.monotonic() + poll_interval_seconds
        self.health = LoopHealth(name="inbox pump")

    async def run(self) -> None:
        """Pump until the stop. After an error call it again."""
        with self._wake.waiter() as waiter:
            polling = AdaptivePolling(waiter, maximum_seconds=self._poll_interval_seconds)
            try:
                while not self._stop.requested:
                    found = await self._claim_and_start(waiter)
                    await self._do_chores()
                    self.health.tick()
                    if found:
                        polling.found()
                    elif not self._stop.requested:
                        await polling.wait()
            finally:
                self._give_back_requests()

    async def _claim_and_start(self, waiter: Waiter) -> bool:
        unused = self._granted(waiter)
        if not unused:
            return False
        shares = {name: unused[each.slots] for name, each in self._consumers.items() if each.slots in unused}
        try:
            claimed_at = time.monotonic()
            limit = sum(unused.values())
            receipts = await loop_step(self._engine, lambda c: self._store.claim(c, shares, limit=limit))
            for receipt in receipts:
                consumer = self._consumers[receipt.consumer]
                unused[consumer.slots] -= 1
                self._running.start(consumer, receipt, claimed_at=claimed_at)
        finally:
            for slots, count in unused.items():
                slots.give_back(count)
        return bool(receipts)

    def _granted(self, waiter: Waiter) -> dict[Slots, int]:
        """How many of all slots are ours now; where none is free we queue, and are woken later."""
        granted: dict[Slots, int] = {}
        for slots in self._slots:
            request = self._requests.pop(slots, None) or slots.request(slots.limit)
            if request.done():
                granted[slots] = request.result()
            else:
                request.add_done_callback(lambda _request: waiter.wake())
                self._requests[slots] = request
        return granted

    def _give_back_requests(self) -> None:
        for slots, request in self._requests.items():
            if not request.cancel() and not request.cancelled():
                slots.give_back(request.result())
        self._requests.clear()

    async def _do_chores(self) -> None:
        if self._stop.requested or time.monotonic() < self._chores_due_at:
            return
        self._chores_due_at = time.monotonic() + self._poll_interval_seconds
        buried, suspects = await loop_step(self._engine, self._bury_and_look)
        for key in buried:
            record_operation(
                operation=Operation.CONSUME,
                outcome=ConsumeOutcome.DEAD_LETTER,
                seconds=0.0,
                provider=self._provider,
                consumer=key.consumer,
            )
            _log.error(
                "message %s was dead-lettered at consumer %s: its process died, or lost it, each time",
                key.message_id,
                key.consumer,
            )
        if suspects:
            await self._run_suspects_alone()

    def _bury_and_look(self, connection: Connection) -> tuple[list[ReceiptKey], bool]:
        buried = [
            key
            for name, consumer in self._consumers.items()
            for key in self._store.bury(
                connection, name, max_retry_attempts=consumer.options.max_retry_attempts
            )
        ]
        # Only a look: taking it would count an attempt, and the running handlers have to end first.
        with connection.begin_nested() as savepoint:
            suspect = self._store.claim_suspect(connection, self._consumers)
            savepoint.rollback()
        return buried, suspect is not None

    async def _run_suspects_alone(self) -> None:
        self._give_back_requests()
        consumers = tuple(self._consumers.values())
        for consumer in consumers:
            consumer.slots.pause()
        try:
            await unless_stopped(_all_idle(consumers), self._stop)
            for _ in range(_SUSPECTS_IN_A_ROW):
                if self._stop.requested or not await self._run_one_suspect():
                    break
        finally:
            for consumer in consumers:
                consumer.slots.resume()

    async def _run_one_suspect(self) -> bool:
        claimed_at = time.monotonic()
        names = tuple(self._consumers)
        receipt = await loop_step(self._engine, lambda c: self._store.claim_suspect(c, names))
        if receipt is None:
            return False
        consumer = self._consumers[receipt.consumer]
        consumer.slots.take_paused()
        await asyncio.wait([self._running.start(consumer, receipt, claimed_at=claimed_at)])
        return True


async def _all_idle(consumers: Sequence[HostedConsumer]) -> None:
    await asyncio.gather(*(consumer.slots.idle() for consumer in consumers))
