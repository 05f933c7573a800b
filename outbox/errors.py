"""What the outbox refuses, by who must act."""

from collections.abc import Sequence
from uuid import UUID

from uow.errors import FixTheCodeError, TryAgainError
from uow.message import Message


class OutboxOptionError(FixTheCodeError, ValueError):
    """An option has a value its rule forbids; the text names option, value and rule."""


class EventConflictError(FixTheCodeError):
    """One event id with two contents: the same identity must be the same event, for ever.

    Give the changed event an id of its own, or enqueue exactly what was enqueued before. `differs` names
    the fields that differ; values are never shown. Trace fields and the ordering key take no part.
    """

    def __init__(self, event_id: UUID, differs: Sequence[str]) -> None:
        super().__init__(
            f"event {event_id} was enqueued before with other content ({', '.join(differs)}); "
            "an event that says something else needs an id of its own"
        )
        self.event_id = event_id
        self.differs = tuple(differs)

    @classmethod
    def between(cls, message: Message, earlier: Message) -> "EventConflictError":
        """The error for two messages of one id."""
        fields = ("contract_name", "contract_version", "occurred_at", "payload")
        return cls(message.id, [name for name in fields if getattr(message, name) != getattr(earlier, name)])

    def __reduce__(self) -> tuple[type["EventConflictError"], tuple[UUID, tuple[str, ...]]]:
        return type(self), (self.event_id, self.differs)


class EventVanishedError(TryAgainError):
    """Events were neither added nor found: something deletes rows of the outbox while they are enqueued."""
