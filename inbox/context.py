"""What a handler is given beside the event."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncSession

from uow.message import Message

if TYPE_CHECKING:
    from uow.unit import SelfManagedUnitOfWork


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """The scope of one delivery: what is written and enqueued here commits together with the receipt.

    unit: the unit of work, already begun; never commit it. message: the envelope. consumer: the name of
    the consumer. attempt: 1 for the first run of this message here.
    """

    unit: "SelfManagedUnitOfWork"
    message: Message
    consumer: str
    attempt: int

    @property
    def session(self) -> AsyncSession:
        """The session of the unit."""
        return self.unit.session

    def enqueue(self, event: object, *, ordering_key: str | None = None) -> None:
        """Publish a follow-up event, in the same commit."""
        self.unit.enqueue(event, ordering_key=ordering_key)

    def stage(self, item: object) -> None:
        """Stage a job, or anything else that a participant of the unit accepts, in the same commit."""
        self.unit.stage(item)
