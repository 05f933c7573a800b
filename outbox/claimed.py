"""What a claim hands to a relay."""

from dataclasses import dataclass, field
from uuid import UUID

from uow.message import Message


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """One event that is ours until its lease expires. `failure_count`: failed tries before this one."""

    sequence: int
    message: Message = field(repr=False)
    failure_count: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Rows leased under one token, in the order in which they were enqueued; may be empty.

    `more` says that further rows may be due at this moment: claim again rather than wait, even when there
    are no rows, which happens when a long queue behind the head of an ordering key was put off.
    """

    token: UUID
    rows: tuple[ClaimedMessage, ...]
    more: bool = False

    @property
    def sequences(self) -> tuple[int, ...]:
        """The sequences of the rows, by which they are renewed and settled."""
        return tuple(row.sequence for row in self.rows)
