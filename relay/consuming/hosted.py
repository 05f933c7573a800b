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
from uow.loop.renewal import LeaseKeeper
from uow.loop.slots import Slots
from uow.loop.supervision import log_failure

_log: Final = logging.getLogger(__name__)
_ROLL_BACK_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 10.0

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


class _Run:
    """One attempt on its way; `over` is done when its slot is free."""

    def __init__(self, consumer: HostedConsumer, attempt: Attempt, ended: Ended) -> None:
        self.consumer = consumer
        self.attempt = attempt
        self.ended = ended
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        self.giving_up: asyncio.Task[None] | None = None

    @property
    def patience_seconds(self) -> float:
        """How long it may go on after its cancellation: not so long that its lease runs out."""
        return min(_PATIENCE_SECONDS, self.consumer.options.lease_seconds / 3)


class RunningReceipts:
    """The attempts that run in this process; each holds one slot and one lease until it is over.

    One whose handler ignores the cancellation at its processing timeout cannot be ended. It is given up:
    its receipt is recorded as timed out, its slot is free, and what it still does is not kept.
    """

    def __init__(self, keeper: LeaseKeeper[ReceiptLease]) -> None:
        self._keeper = keeper
        self._runs: set[_Run] = set()

    def start(
        self,
        consumer: HostedConsumer,
        receipt: AcquiredReceipt,
        *,
        claimed_at: float,
        ended: Ended = lambda outcome: None,
    ) -> asyncio.Future[None]:
        """Run the handler in a task of its own, in a slot that the caller was granted.

        The lease, claimed at `claimed_at` or later (`time.monotonic()`), is renewed until the processing
        timeout; when it is lost the handler is cancelled. The future is done when the slot is free again.
        """
        loop, attempt = asyncio.get_running_loop(), Attempt(receipt)
        timeout_seconds = consumer.options.processing_timeout_seconds
        self._keeper.hold(
            [attempt.lease],
            claimed_at=claimed_at,
            until=time.monotonic() + timeout_seconds,
            on_lost=lambda _lease: attempt.lose_lease(),
        )
        run = _Run(consumer, attempt, ended)
        self._runs.add(run)
        task = run.task = asyncio.create_task(self._run(run), name=f"handler of {consumer.name}")
        # In two steps: after a time in which the event loop was blocked, the handler comes first.
        timer = loop.call_later(
            timeout_seconds, lambda: loop.call_later(run.patience_seconds, self._lose_patience, run)
        )
        task.add_done_callback(lambda _task: timer.cancel())
        return run.over

    async def end(self) -> None:
        """Wait until no attempt runs any more, but for those that were given up."""
        while self._runs:
            await asyncio.wait([run.over for run in self._runs])

    async def cancel(self) -> None:
        """Cancel all attempts and wait until each is rolled back and has given its receipt back.

        One that cannot within ten seconds, since the database does not answer, is left to its lease.
        """
        await asyncio.sleep(0)  # one that was just started must get to where it can give back
        remaining = [run.task for run in self._runs if run.task is not None]
        for task in remaining:
            task.cancel()
        if remaining:
            _done, stuck = await asyncio.wait(remaining, timeout=_ROLL_BACK_SECONDS)
            if stuck:
                _log.warning("%d handlers could not be rolled back in time", len(stuck))

    async def _run(self, run: _Run) -> None:
        try:
            await run.consumer.receiver.handle(run.attempt)
        except Exception as error:  # noqa: BLE001 - a receiver never raises; if it does, its lease brings the work back
            log_failure(f"receiver of {run.consumer.name}", error)
        finally:
            self._finish(run)

    def _lose_patience(self, run: _Run) -> None:
        if not run.over.done():
            run.giving_up = asyncio.create_task(self._give_up(run))

    async def _give_up(self, run: _Run) -> None:
        _log.error(
            "a handler of %s goes on although it was cancelled at its processing timeout; it is given up",
            run.consumer.name,
        )
        try:
            await run.consumer.receiver.give_up(run.attempt)
        finally:
            self._finish(run)

    def _finish(self, run: _Run) -> None:
        if run.over.done():  # given up before
            return
        run.over.set_result(None)
        self._runs.discard(run)
        self._keeper.let_go([run.attempt.lease])
        run.consumer.slots.give_back()
        run.ended(run.attempt.outcome)
