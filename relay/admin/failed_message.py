"""What operators see of a failed message: metadata only, never its payload."""

import base64
import binascii
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

import msgspec

from relay.admin.failure_id import FailureKind
from relay.admin.operation import Operation, OperationResult
from uow.errors import FixTheCodeError
from uow.failure_filter import FailureFilter
from uow.text import check_text


class FailedCursorError(FixTheCodeError):
    """The text is not a cursor that `list` gave; begin without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMessage:
    """One dead-lettered message. `consumer` is None for a message that could not be published.

    attempts: failed tries to publish, or runs of the handler, until it was given up at `failed_at`.
    """

    failure_id: str
    kind: FailureKind
    message_id: UUID
    contract_name: str
    contract_version: int
    consumer: str | None
    failed_at: datetime
    attempts: int
    error_code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFilter(FailureFilter):
    """Which failed messages; everything given must hold. A consumer asks for inbox failures alone.

    failed_from (inclusive) and failed_before (exclusive) are aware moments. Raises ValueError naming the
    field for a moment without a zone, a version that is none, or a text that no store may hold.
    """

    kind: FailureKind | None = None
    consumer: str | None = None

    def includes(self, kind: FailureKind) -> bool:
        """Whether failures of this kind can match."""
        if self.consumer is not None and kind is FailureKind.OUTBOX:
            return False
        return self.kind is None or self.kind is kind


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPage:
    """One page of the list, the latest failure first; `next_cursor` is None on the last page."""

    messages: tuple[FailedMessage, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDetail:
    """One message as it stands, failed or no longer, and what operators did to it, newest first.

    error_detail: class and short text of the last error, without payload. created_at: when the event was
    enqueued, or the receipt stored.
    """

    failure_id: str
    kind: FailureKind
    message_id: UUID
    contract_name: str
    contract_version: int
    consumer: str | None
    state: str
    attempts: int
    created_at: datetime
    failed_at: datetime | None
    next_attempt_at: datetime | None
    error_code: str | None
    error_detail: str | None
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReport:
    """The answer to one replay or discard; `detail` says why it was not accepted."""

    failure_id: str
    result: OperationResult
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkProgress:
    """How far a bulk replay is; `total` counts what matched when it began."""

    total: int
    results: dict[OperationResult, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """How many were tried."""
        return sum(self.results.values())

    @property
    def accepted(self) -> int:
        """How many of them were accepted."""
        return self.results.get(OperationResult.ACCEPTED, 0)


class Position(msgspec.Struct, frozen=True, array_like=True):
    """A place in the list of one kind."""

    failed_at: Annotated[datetime, msgspec.Meta(tz=True)]
    message_id: UUID
    consumer: str


class Positions(msgspec.Struct, frozen=True, array_like=True):
    """The places in both lists after which the next page begins; None is the beginning."""

    outbox: Position | None = None
    inbox: Position | None = None

    @classmethod
    def decode(cls, cursor: str | None) -> Self:
        """From a cursor's text. Raises FailedCursorError."""
        if cursor is None:
            return cls()
        try:
            positions = msgspec.json.decode(base64.urlsafe_b64decode(cursor.encode()), type=cls)
            for place in (positions.outbox, positions.inbox):
                if place is not None:
                    check_text("consumer", place.consumer)
        except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
            raise FailedCursorError(
                "not a cursor of the list of failed messages; begin without one"
            ) from error
        return positions

    def encode(self) -> str:
        """As a cursor's text."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()

    def after(self, message: FailedMessage) -> "Positions":
        """The places once `message` was given out."""
        position = Position(message.failed_at, message.message_id, message.consumer or "")
        changed: dict[str, Any] = {message.kind.value: position}
        return msgspec.structs.replace(self, **changed)
