"""One consumer as a host runs it, and one run of one of its receipts."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from inbox.attempt import Attempt
from inbox.options import InboxOptions
from inbox.outcome import ConsumeOutcome
from inbox.receipt import AcquiredReceipt, ReceiptLease
from inbox.receiver import Receiver
from relay.broker import ConsumerBinding
from relay.renewal import LeaseKeeper
from relay.slots import Slots
from relay.supervision import log_failure

_log: Final = logging.getLogger(__name__)
_ROLL_BACK_SECONDS: Final = 10.0

Ended = Callable[[ConsumeOutcome | None], None]
"""Told at the end of a run; None when the receiver failed on its own account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedConsumer:
    """A consumer with everything that a host needs to run it; `options` has its overrides applied.

    shared_slots: what all consumers of a host use together, instead of its own concurrency.
    """

    binding: ConsumerBinding
    receiver: Receiver
    options: InboxOptions
    shared_slots: Slots | None = None
    slots: Slots = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", self.shared_slots or Slots(self.options.concurrency))

    @property
    def name(self) -> str:
        """The name of the consumer."""
        return self.binding.consumer


class RunningReceipts:
    """The attempts that run in this process; each holds one slot and one lease until it ends."""

    def __init__(self, keeper: LeaseKeeper[ReceiptLease]) -> None:
        self._keeper = keeper
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self,
        consumer: HostedConsumer,
        receipt: AcquiredReceipt,
        *,
        claimed_at: float,
        ended: Ended = lambda outcome: None,
    ) -> asyncio.Task[None]:
        """Run the handler in a task of its own, in a slot that the caller was granted.

        The lease, claimed at `claimed_at` or later (`time.monotonic()`), is renewed until the processing
        timeout; when it is lost the handler is cancelled.
        """
        attempt = Attempt(receipt)
        self._keeper.hold(
            [attempt.lease],
            claimed_at=claimed_at,
            until=time.monotonic() + consumer.options.processing_timeout_seconds,
            on_lost=lambda _lease: attempt.lose_lease(),
        )
        task = asyncio.create_task(self._run(consumer, attempt, ended), name=f"handler of {consumer.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """Wait until no attempt runs any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def cancel(self) -> None:
        """Cancel all attempts and wait until each is rolled back and has given its receipt back.

        One that cannot within ten seconds, since the database does not answer, is left to its lease.
        """
        await asyncio.sleep(0)  # one that was just started must get to where it can give back
        remaining = set(self._tasks)
        for task in remaining:
            task.cancel()
        if remaining:
            _done, stuck = await asyncio.wait(remaining, timeout=_ROLL_BACK_SECONDS)
            if stuck:
                _log.warning("%d handlers could not be rolled back in time", len(stuck))

    async def _run(self, consumer: HostedConsumer, attempt: Attempt, ended: Ended) -> None:
        try:
            await consumer.receiver.handle(attempt)
        except Exception as error:  # noqa: BLE001 - a receiver never raises; if it does, its lease brings the work back
            log_failure(f"receiver of {consumer.name}", error)
        finally:
            self._keeper.let_go([attempt.lease])
            consumer.slots.give_back()
            ended(attempt.outcome)
