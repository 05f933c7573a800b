"""One acquired receipt, one unit of work, one outcome."""

from inbox.attempt import Attempt
from inbox.outcome import ConsumeOutcome
from inbox.receipt import AcquiredReceipt


class Receiver:
    """Runs acquired receipts of one consumer."""

    async def handle(self, acquired: AcquiredReceipt | Attempt) -> ConsumeOutcome:
        """Run the handler and complete the receipt in one commit; returns, counts and records the outcome.

        Raises CancelledError when the caller is cancelled, after the receipt was given back (or its
        commit finished): `Attempt.outcome` then says which. Never raises for what a handler or a message
        does, nor for an outage of the database.
        """
        raise NotImplementedError
