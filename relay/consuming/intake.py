"""From the broker to running handlers: one consumer's deliveries, acquired as slots become free."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

from sqlalchemy.exc import DataError, DBAPIError, StatementError
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.acquisition import AcquireStatus, Acquisition
from inbox.outcome import ConsumeOutcome
from inbox.store import InboxStore
from relay.broker import Delivery, Disposition, Subscription
from relay.consuming.hosted import HostedConsumer, RunningReceipts
from relay.consuming.rejected import RejectedDelivery
from relay.wire import decode_wire
from uow.contracts import DecodeError
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest, unless_stopped
from uow.message import Message
from uow.secret import describe_error
from uow.telemetry import Operation, record_operation


@dataclass(slots=True, eq=False)
class _Taken:
    """A delivery that is ours to settle; `busy_since` is when someone else was first found to hold it."""

    delivery: Delivery
    message: Message
    received_at: float
    busy_since: float | None = None


class DeliveryIntake:
    """Takes deliveries of one subscription, acquires as many as may run now, and settles each once.

    What waits for a slot waits unacquired. A busy delivery is asked again every `busy_recheck_seconds`;
    after `busy_wait_limit_seconds` it is acknowledged as busy: the receipt holds the message, and the pump
    takes it over when the holder's lease runs out.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: InboxStore,
        consumer: HostedConsumer,
        subscription: Subscription,
        running: RunningReceipts,
        *,
        provider: str,
        rejected: Callable[[RejectedDelivery], None],
        stop: StopRequest,
    ) -> None:
        self._engine = engine
        self._store = store
        self._consumer = consumer
        self._subscription = subscription
        self._running = running
        self._provider = provider
        self._rejected = rejected
        self._stop = stop
        self._waiting: deque[_Taken] = deque()
        self._busy: list[_Taken] = []
        self._careful = 0
        self.health = LoopHealth(name=f"deliveries of {consumer.name}")
        self.recheck_health = LoopHealth(name=f"busy deliveries of {consumer.name}")

    @property
    def connected(self) -> bool:
        """Whether the broker would give us a delivery at this moment."""
        return self._subscription.healthy

    async def take(self) -> None:
        """Receive and admit until the stop. After an error call it again: nothing received is forgotten."""
        while not self._stop.requested:
            if not self._waiting:
                await self._receive()
            else:
                await self._admit()
            self.health.tick()

    async def recheck_busy(self) -> None:
        """Ask again for busy deliveries until the stop."""
        while not await self._stop.sleep(self._consumer.options.busy_recheck_seconds):
            remaining = list(self._busy)
            while remaining and (granted := await self._slots(len(remaining))):
                asked, remaining = remaining[:granted], remaining[granted:]
                await self._acquire(asked, granted)
            self.recheck_health.tick()

    async def stop_receiving(self) -> None:
        """Let no further delivery come."""
        await self._subscription.stop_receiving()

    async def close(self) -> None:
        """Give back what was not begun, send what is settled, close the channel."""
        for taken in [*self._waiting, *self._busy]:
            self._subscription.settle(taken.delivery, Disposition.RETURN)
        self._waiting.clear()
        self._busy.clear()
        await self._subscription.close()

    async def _receive(self) -> None:
        deliveries = await unless_stopped(
            self._subscription.receive(self._consumer.options.concurrency), self._stop
        )
        for delivery in deliveries or ():
            received_at = time.monotonic()
            try:
                message = decode_wire(
                    delivery.body, delivery.content_type, delivery.headers, delivery.properties
                )
            except DecodeError as error:
                self._reject(delivery, "contract", str(error), received_at)
            else:
                self._waiting.append(_Taken(delivery, message, received_at))

    async def _admit(self) -> None:
        granted = await self._slots(1 if self._careful else len(self._waiting))
        if not granted:
            return
        asked = list(islice(self._waiting, granted))
        try:
            await self._acquire(asked, granted)
        except (StatementError, ValueError) as error:
            if not _cannot_be_stored(error):
                raise
            if len(asked) > 1:  # one of them; ask for each alone, so that the others do not suffer
                self._careful = len(asked)
                return
            self._reject(asked[0].delivery, "contract", describe_error(error), asked[0].received_at)
        self._careful = max(0, self._careful - len(asked))
        for _ in asked:
            self._waiting.popleft()

    async def _slots(self, wanted: int) -> int:
        """Slots granted; none when a stop was requested first."""
        return await unless_stopped(self._consumer.slots.reserve(wanted), self._stop) or 0

    async def _acquire(self, asked: Sequence[_Taken], granted: int) -> None:
        claimed_at = time.monotonic()
        name, messages = self._consumer.name, [taken.message for taken in asked]
        unused = granted
        try:
            answers = await loop_step(self._engine, lambda c: self._store.acquire(c, name, messages))
            for taken, answer in zip(asked, answers, strict=True):
                if answer.receipt is not None:
                    unused -= 1
                    self._running.start(
                        self._consumer, answer.receipt, claimed_at=claimed_at, ended=self._ended(taken)
                    )
                self._note(taken, answer)
        finally:
            self._consumer.slots.give_back(unused)

    def _note(self, taken: _Taken, answer: Acquisition) -> None:
        """Settle what is not run, and keep the busy ones for later."""
        busy = answer.status is AcquireStatus.BUSY
        now = time.monotonic()
        if busy and taken.busy_since is None:
            taken.busy_since = now
            self._busy.append(taken)
            return
        limit = self._consumer.options.busy_wait_limit_seconds
        if busy and taken.busy_since is not None and now - taken.busy_since < limit:
            return
        if taken.busy_since is not None:
            self._busy.remove(taken)
        self._settle(taken, answer)

    def _settle(self, taken: _Taken, answer: Acquisition) -> None:
        match answer.status:
            case AcquireStatus.ACQUIRED:
                return
            case AcquireStatus.CONFLICT:
                reason = "other content is stored under this id"
                self._reject(taken.delivery, "conflicting_content", reason, taken.received_at)
                return
            case (
                AcquireStatus.ALREADY_PROCESSED
                | AcquireStatus.NOT_DUE
                | AcquireStatus.DEAD_LETTERED
                | AcquireStatus.BUSY
            ):
                self._subscription.settle(taken.delivery, Disposition.ACKNOWLEDGE)
            case _:
                assert_never(answer.status)
        if answer.outcome is not None:
            self._count(answer.outcome, taken.received_at)

    def _ended(self, taken: _Taken) -> Callable[[ConsumeOutcome | None], None]:
        def settle(outcome: ConsumeOutcome | None) -> None:
            # Whatever else the outcome is, the receipt holds the message and the inbox owns what follows.
            unfinished = outcome is ConsumeOutcome.CANCELLED
            disposition = Disposition.RETURN if unfinished else Disposition.ACKNOWLEDGE
            self._subscription.settle(taken.delivery, disposition)

        return settle

    def _reject(self, delivery: Delivery, error_code: str, reason: str, received_at: float) -> None:
        self._subscription.settle(delivery, Disposition.REJECT)
        self._count(ConsumeOutcome.DEAD_LETTER, received_at)
        self._rejected(
            RejectedDelivery(
                consumer=self._consumer.name,
                error_code=error_code,
                reason=reason,
                message_id=_text(delivery.properties.get("message_id")),
                contract=_text(delivery.properties.get("type")),
            )
        )

    def _count(self, outcome: ConsumeOutcome, received_at: float) -> None:
        record_operation(
            operation=Operation.CONSUME,
            outcome=outcome,
            seconds=time.monotonic() - received_at,
            provider=self._provider,
            consumer=self._consumer.name,
        )


def _text(value: object) -> str | None:
    return value[:255] if isinstance(value, str) else None


def _cannot_be_stored(error: Exception) -> bool:
    """Whether a value itself is what the database or its driver refuses (SQLSTATE class 22)."""
    if isinstance(error, DBAPIError) and not isinstance(error, DataError):
        return str(getattr(error.orig, "sqlstate", None)).startswith("22")
    return True
