"""One run of one acquired receipt, and the host's hand on it."""

import asyncio

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
