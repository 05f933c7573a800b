"""The outbox: events stored in the commit of the business, waiting for the relay."""

from outbox.append import AppendReport
from outbox.claimed import Claim, ClaimedMessage
from outbox.errors import EventConflictError, EventVanishedError, OutboxOptionError
from outbox.failure import (
    DiscardResult,
    FailedEvent,
    FailedEventCursor,
    FailedEventFilter,
    OutboxCounts,
    OutboxRecord,
    ReplayResult,
)
from outbox.options import OutboxOptions
from outbox.participant import OutboxParticipant
from outbox.settlement import Settlement, SettlementKind, SettleReport
from outbox.state import OutboxState
from outbox.store import OutboxStore
from outbox.table import OutboxNotMappedError, add_outbox_table, outbox_table

__all__ = [
    "AppendReport",
    "Claim",
    "ClaimedMessage",
    "DiscardResult",
    "EventConflictError",
    "EventVanishedError",
    "FailedEvent",
    "FailedEventCursor",
    "FailedEventFilter",
    "OutboxCounts",
    "OutboxNotMappedError",
    "OutboxOptionError",
    "OutboxOptions",
    "OutboxParticipant",
    "OutboxRecord",
    "OutboxState",
    "OutboxStore",
    "ReplayResult",
    "SettleReport",
    "Settlement",
    "SettlementKind",
    "add_outbox_table",
    "outbox_table",
]
