"""The states of an inbox receipt and the moves between them."""

from enum import StrEnum
from typing import Final


class ReceiptState(StrEnum):
    """Where one consumer stands with one message."""

    RECEIVED = "received"
    PROCESSING = "processing"
    PROCESSED = "processed"
    FAILED = "failed"
    DEAD_LETTERED = "dead_lettered"
    DISCARDED = "discarded"


TRANSITIONS: Final[dict[ReceiptState, frozenset[ReceiptState]]] = {
    ReceiptState.RECEIVED: frozenset({ReceiptState.PROCESSING}),
    ReceiptState.PROCESSING: frozenset(
        {
            ReceiptState.PROCESSING,
            ReceiptState.RECEIVED,
            ReceiptState.PROCESSED,
            ReceiptState.FAILED,
            ReceiptState.DEAD_LETTERED,
        }
    ),
    ReceiptState.PROCESSED: frozenset(),
    ReceiptState.FAILED: frozenset({ReceiptState.PROCESSING, ReceiptState.RECEIVED}),
    ReceiptState.DEAD_LETTERED: frozenset({ReceiptState.RECEIVED, ReceiptState.DISCARDED}),
    ReceiptState.DISCARDED: frozenset(),
}
"""Allowed moves. PROCESSING -> PROCESSING is a take-over after the lease expired; the way back to
RECEIVED is a graceful release or an operator's replay."""

UNFINISHED: Final = (ReceiptState.RECEIVED, ReceiptState.PROCESSING, ReceiptState.FAILED)
"""Someone still has to run the handler for these."""
