"""The answers of `InboxStore.acquire` and `InboxStore.record`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from inbox.outcome import ConsumeOutcome
from inbox.receipt import AcquiredReceipt, ReceiptKey


class AcquireStatus(StrEnum):
    """What the inbox says to one delivery."""

    ACQUIRED = "acquired"
    """Ours: run the handler, or release it."""
    ALREADY_PROCESSED = "already_processed"
    """Processed before, or discarded by an operator. Acknowledge."""
    BUSY = "busy"
    """Someone holds it at this moment. Ask again a little later; never a success."""
    NOT_DUE = "not_due"
    """A retry is scheduled, or it is a suspect that runs alone; the inbox drives it. Acknowledge."""
    DEAD_LETTERED = "dead_lettered"
    """It waits for an operator. Acknowledge."""
    CONFLICT = "conflict"
    """Another content is stored under this id; the receipt is untouched. Reject into the dead queue."""


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The answer to one delivery; `receipt` is there exactly when the status is ACQUIRED."""

    status: AcquireStatus
    receipt: AcquiredReceipt | None = None

    @property
    def outcome(self) -> ConsumeOutcome | None:
        """The outcome to count for a delivery that is not run; None when it was acquired."""
        match self.status:
            case AcquireStatus.ACQUIRED:
                return None
            case AcquireStatus.ALREADY_PROCESSED | AcquireStatus.NOT_DUE | AcquireStatus.DEAD_LETTERED:
                return ConsumeOutcome.DUPLICATE
            case AcquireStatus.BUSY:
                return ConsumeOutcome.BUSY
            case AcquireStatus.CONFLICT:
                return ConsumeOutcome.DEAD_LETTER
            case _:
                assert_never(self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReport:
    """What a hand-over did: how many receipts are new, which were there already with the same content and
    absorbed it, and which are stored with another content."""

    recorded: int
    known: tuple[ReceiptKey, ...] = ()
    conflicts: tuple[ReceiptKey, ...]
