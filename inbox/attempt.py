"""One run of one acquired receipt, and the host's hand on it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from inbox.errors import ProcessingTimeoutError, ReceiptLeaseLostError
from inbox.outcome import ConsumeOutcome
from inbox.receipt import AcquiredReceipt, ReceiptLease


class Attempt:
    """An acquired receipt on its way through a Receiver. Use it on the event loop's thread only.

    outcome: set exactly once, also when `Receiver.handle` ends in CancelledError.
    """

    def __init__(self, receipt: AcquiredReceipt) -> None:
        self.receipt = receipt
        self.outcome: ConsumeOutcome | None = None
        self._lost = False
        self._scope: asyncio.Timeout | None = None

    @property
    def lease(self) -> ReceiptLease:
        """The lease to renew while this attempt runs."""
        return self.receipt.lease

    @property
    def lease_lost(self) -> bool:
        """Whether `lose_lease` was called."""
        return self._lost

    def lose_lease(self) -> None:
        """Tell that the lease is gone: the handler is cancelled and nothing is committed or recorded."""
        self._lost = True
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def limited(self, seconds: float) -> AsyncIterator[None]:
        """A block that is cancelled when it takes longer or when the lease is lost; for the Receiver.

        Raises ProcessingTimeoutError or ReceiptLeaseLostError instead of whatever ends the block then,
        even when it ends well: too late is too late, also for a block that ignored its cancellation or
        kept the event loop from noticing.
        """
        if self._lost:
            raise ReceiptLeaseLostError(self.receipt.key)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            async with asyncio.timeout_at(deadline) as self._scope:
                yield
        except Exception as error:
            if self._over(deadline, loop.time()):
                raise self._reason(seconds) from error
            raise
        finally:
            self._scope = None
        if self._over(deadline, loop.time()):
            raise self._reason(seconds)

    def _over(self, deadline: float, now: float) -> bool:
        return self._lost or now >= deadline

    def _reason(self, seconds: float) -> Exception:
        if self._lost:
            return ReceiptLeaseLostError(self.receipt.key)
        return ProcessingTimeoutError(f"the handler took longer than {seconds:g} s")
