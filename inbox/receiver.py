"""One acquired receipt, one unit of work, one outcome."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.attempt import Attempt
from inbox.bookkeeping import Bookkeeper, to_the_end
from inbox.context import HandlerContext
from inbox.errors import NoHandlerError, ProcessingTimeoutError, ReceiptLeaseLostError
from inbox.failure import (
    COMMIT_LOST,
    PROCESS_DIED,
    Failure,
    failure_of_contract,
    failure_of_handler,
)
from inbox.handlers import Consumer
from inbox.options import InboxOptions
from inbox.outcome import ConsumeOutcome
from inbox.participant import ReceiptCompletion
from inbox.receipt import AcquiredReceipt
from inbox.store import InboxStore
from inbox.view import LeaseFate
from uow.contracts import Contracts, DecodeError
from uow.failure_text import folder_of, frames_of
from uow.telemetry import Operation, consume_span, record_operation
from uow.unit import SelfManagedUnitOfWork
from uow.unit_errors import CommitOutcomeUnknownError

_log: Final = logging.getLogger(__name__)
_HERE: Final = folder_of(__file__)


class _Ending(NamedTuple):
    """How an attempt ended; `error_type` is for telemetry."""

    outcome: ConsumeOutcome
    error_type: str | None = None


class Receiver:
    """Runs acquired receipts of one consumer; one instance runs any number at once.

    engine: for the steps that record what did not commit. unit_of_work: makes a new unit for each attempt,
    with the ReceiptParticipant of `store` among its participants. options: those of the inbox; what the
    consumer overrides is applied here. provider: the broker, for telemetry.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        engine: AsyncEngine,
        unit_of_work: Callable[[], SelfManagedUnitOfWork],
        store: InboxStore,
        contracts: Contracts,
        options: InboxOptions | None = None,
        provider: str = "local",
    ) -> None:
        self.consumer: Final = consumer
        self.options: Final = (options or InboxOptions()).overridden_by(consumer.options)
        self._unit_of_work = unit_of_work
        self._contracts = contracts
        self._provider = provider
        self._bookkeeper = Bookkeeper(engine, store, self.options)

    async def handle(self, acquired: AcquiredReceipt | Attempt) -> ConsumeOutcome:
        """Run the handler and complete the receipt in one commit; returns, counts and records the outcome.

        Raises CancelledError when the caller is cancelled, after the receipt was given back (or its
        commit finished): `Attempt.outcome` then says which. Never raises for what a handler or a message
        does, nor for an outage of the database: a receipt that cannot be written is left to its lease.
        """
        attempt = acquired if isinstance(acquired, Attempt) else Attempt(acquired)
        started = time.perf_counter()
        with consume_span(attempt.receipt.message, self.consumer.name, self._provider) as span:
            ending, cancellation = await self._run(attempt)
            span.set_outcome(ending.outcome, error_type=ending.error_type)
        self._count(attempt, ending.outcome, time.perf_counter() - started)
        if cancellation is not None:
            raise cancellation
        return ending.outcome

    async def give_up(self, attempt: Attempt) -> None:
        """Record an attempt whose handler goes on in spite of its cancellation as timed out.

        Nothing of what that handler still does is kept. An attempt that has ended meanwhile, or that has
        lost its lease, stays as it is.
        """
        attempt.lose_lease()
        limit = self.options.processing_timeout_seconds
        error = ProcessingTimeoutError(f"the handler went on after {limit:g} s and ignored its cancellation")
        failure = failure_of_handler(error, attempt.receipt.message)
        if await self._bookkeeper.record(attempt.receipt, failure):
            ending = self._not_consumed(attempt.receipt, failure, stored=True, frames="")
            self._count(attempt, ending.outcome, limit)

    def _count(self, attempt: Attempt, outcome: ConsumeOutcome, seconds: float) -> None:
        """Once for each attempt: one that was given up may end later, and that counts no more."""
        if attempt.outcome is not None:
            return
        attempt.outcome = outcome
        record_operation(
            operation=Operation.CONSUME,
            outcome=outcome,
            seconds=seconds,
            provider=self._provider,
            consumer=self.consumer.name,
        )

    async def _run(self, attempt: Attempt) -> tuple[_Ending, asyncio.CancelledError | None]:
        """The ending, and the cancellation that goes on after it."""
        cancellation: asyncio.CancelledError | None = None
        try:
            refused = await self._consume(attempt)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                cancellation = error
                closing = self._cut_short(attempt.receipt)
            else:  # the handler awaited something that was cancelled
                closing = self._failed(attempt.receipt, error)
        except ReceiptLeaseLostError:
            return self._lost(attempt.receipt), None
        except CommitOutcomeUnknownError as error:
            closing = self._unknown(attempt.receipt, error)
        except (KeyboardInterrupt, GeneratorExit):
            raise  # the process or its event loop is ending, and nothing may be awaited any more
        except BaseException as error:  # noqa: BLE001 - recorded, counted and logged, `sys.exit()` too
            closing = self._failed(attempt.receipt, error)
        else:
            if refused is None:
                return _Ending(ConsumeOutcome.CONSUMED), None
            closing = self._record(attempt.receipt, refused)
        ending, later = await to_the_end(closing)
        return ending, cancellation or later

    async def _consume(self, attempt: Attempt) -> Failure | None:
        """Run and commit; what keeps it from being run at all is returned, everything else raised."""
        message = attempt.receipt.message
        if attempt.receipt.attempt > self.options.max_retry_attempts + 1:
            return PROCESS_DIED  # an attempt that ended in any verdict would have been the last
        try:
            event = self._contracts.decode(message)
        except DecodeError as error:
            return failure_of_contract(error)
        handler = self.consumer.find_handler(type(event))
        if handler is None:
            return failure_of_contract(
                NoHandlerError(
                    f"consumer {self.consumer.name!a} has no handler for {type(event).__qualname__}"
                )
            )
        unit = self._unit_of_work()
        context = HandlerContext(
            unit=unit, message=message, consumer=self.consumer.name, attempt=attempt.receipt.attempt
        )
        async with unit:
            async with attempt.limited(self.options.processing_timeout_seconds):
                await handler(event, context)
            unit.stage(ReceiptCompletion(attempt.lease))
        return None

    async def _failed(self, receipt: AcquiredReceipt, error: BaseException) -> _Ending:
        failure = failure_of_handler(error, receipt.message)
        return await self._record(receipt, failure, frames=frames_of(error, handlers_are_called_in=_HERE))

    async def _record(self, receipt: AcquiredReceipt, failure: Failure, *, frames: str = "") -> _Ending:
        recorded = await self._bookkeeper.record(receipt, failure)
        if recorded is False:
            return self._lost(receipt)
        return self._not_consumed(receipt, failure, stored=bool(recorded), frames=frames)

    async def _unknown(self, receipt: AcquiredReceipt, error: CommitOutcomeUnknownError) -> _Ending:
        match await self._bookkeeper.look(receipt, COMMIT_LOST):
            case LeaseFate.COMPLETED:
                return _Ending(ConsumeOutcome.CONSUMED)
            case LeaseFate.LOST:
                return self._lost(receipt)
            case found:
                return self._not_consumed(receipt, COMMIT_LOST, stored=found is not None, frames="")

    async def _cut_short(self, receipt: AcquiredReceipt) -> _Ending:
        match await self._bookkeeper.give_back(receipt):
            case LeaseFate.COMPLETED:
                return _Ending(ConsumeOutcome.CONSUMED)
            case LeaseFate.LOST:
                return self._lost(receipt)
            case _:
                return _Ending(ConsumeOutcome.CANCELLED)

    def _not_consumed(
        self, receipt: AcquiredReceipt, failure: Failure, *, stored: bool, frames: str
    ) -> _Ending:
        last = stored and self._bookkeeper.is_last(receipt, failure)
        _log.log(
            logging.ERROR if last else logging.WARNING,
            "consumer %s, message %s of %s, attempt %d: %s %s; %s%s",
            receipt.consumer,
            receipt.message.id,
            receipt.message.routing_key,
            receipt.attempt,
            failure.code.value,
            failure.kind,
            "dead-lettered" if last else "tried again later",
            f"\n{frames}" if frames else "",
        )
        outcome = ConsumeOutcome.DEAD_LETTER if last else ConsumeOutcome.CONSUME_FAILED
        return _Ending(outcome, failure.kind or failure.code.value)

    def _lost(self, receipt: AcquiredReceipt) -> _Ending:
        _log.warning(
            "consumer %s, message %s, attempt %d: the lease was lost and nothing of it was kept",
            receipt.consumer,
            receipt.message.id,
            receipt.attempt,
        )
        return _Ending(ConsumeOutcome.LEASE_LOST, "lease_lost")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
