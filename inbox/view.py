"""What operators see of receipts: metadata only, never a payload."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from inbox.receipt import ReceiptKey
from inbox.state import ReceiptState
from uow.failure_filter import FailureFilter
from uow.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRecord:
    """One receipt as it stands.

    received_at: when it was stored first. completed_at: when it became processed, dead-lettered or
    discarded. next_attempt_at: the moment from which anyone may take it; None when it is finished.
    error_code, error_detail: why the last attempt ended without success, kept until it is processed.
    """

    message_id: UUID
    consumer: str
    contract_name: str
    contract_version: int
    state: ReceiptState
    attempt_count: int
    received_at: datetime
    next_attempt_at: datetime | None
    completed_at: datetime | None
    error_code: str | None
    error_detail: str | None

    @property
    def key(self) -> ReceiptKey:
        """Its identity."""
        return ReceiptKey(self.message_id, self.consumer)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReceiptFilter(FailureFilter):
    """Which dead-lettered receipts to list; everything given must hold."""

    consumer: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class FailedReceiptCursor:
    """The place in the list after which the next page begins."""

    failed_at: datetime
    message_id: UUID
    consumer: str


class LeaseFate(StrEnum):
    """What became of a lease, asked by its holder after a commit of unknown outcome."""

    COMPLETED = "completed"
    """The receipt was processed under this very lease."""
    HELD = "held"
    """Still ours and unfinished; no transaction that would finish it is under way."""
    LOST = "lost"
    """Expired, taken over or ended otherwise."""


class OperationAnswer(StrEnum):
    """What an operator's verb did."""

    ACCEPTED = "accepted"
    NOT_FOUND = "not_found"
    INVALID_STATE = "invalid_state"


@dataclass(frozen=True, slots=True)
class ResetReport:
    """The answer to `reset`; `message` is there exactly when it was accepted, to be scheduled again."""

    answer: OperationAnswer
    message: Message | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxCounts:
    """How many receipts are unfinished or dead, and how old the oldest unfinished one is.

    oldest_unfinished_age_seconds: since it was received; None when nothing is unfinished.
    """

    received: int
    processing: int
    failed: int
    dead_lettered: int
    oldest_unfinished_age_seconds: float | None
