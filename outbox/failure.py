"""What operators ask about events, and the answers; metadata, never a payload in a list or a repr."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from outbox.state import OutboxState
from uow.failure_filter import FailureFilter
from uow.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEventFilter(FailureFilter):
    """Which dead-lettered events; everything given must hold."""


@dataclass(frozen=True, slots=True)
class FailedEventCursor:
    """The place of one event in the list, after which the next page begins."""

    failed_at: datetime
    event_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEvent:
    """One dead-lettered event. attempts: tries to publish it until it was given up at `failed_at`."""

    event_id: UUID
    contract_name: str
    contract_version: int
    failed_at: datetime
    attempts: int
    error_code: str
    error_detail: str | None

    @property
    def cursor(self) -> FailedEventCursor:
        """Where the page after this event begins."""
        return FailedEventCursor(self.failed_at, self.event_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRecord:
    """One row as it stands. attempts: failed tries, and claims in a row that ended without a verdict.

    completed_at: when it was published, given up or discarded; None while unfinished.
    """

    sequence: int
    message: Message = field(repr=False)
    state: OutboxState
    attempts: int
    created_at: datetime
    completed_at: datetime | None
    next_attempt_at: datetime | None
    lease_expires_at: datetime | None
    error_code: str | None
    error_detail: str | None


class ReplayResult(StrEnum):
    """The answer to a replay of one event."""

    ACCEPTED = "accepted"
    """It is pending again, due now, with no failures."""
    NOT_FOUND = "not_found"
    """No row has this event id."""
    INVALID_STATE = "invalid_state"
    """It is not dead-lettered; perhaps someone replayed or discarded it first."""


class DiscardResult(StrEnum):
    """The answer to a discard of one event."""

    ACCEPTED = "accepted"
    """It is resolved; the row stays and its ordering key goes on."""
    NOT_FOUND = "not_found"
    """No row has this event id."""
    INVALID_STATE = "invalid_state"
    """It is not dead-lettered; perhaps someone replayed or discarded it first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCounts:
    """How many events wait in each state, and the age of the oldest one that is not yet published."""

    pending: int
    publishing: int
    dead_lettered: int
    oldest_unfinished_age_seconds: float | None
