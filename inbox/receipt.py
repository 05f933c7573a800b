"""A receipt is what one consumer did with one message: its key, the right to work on it, the work itself."""

from dataclasses import dataclass
from uuid import UUID

from uow.message import Message


@dataclass(frozen=True, slots=True, order=True)
class ReceiptKey:
    """The identity of a receipt; consumers compare by code point."""

    message_id: UUID
    consumer: str


@dataclass(frozen=True, slots=True)
class ReceiptLease:
    """The right to finish a receipt: valid while the row carries `token` and the lease has not expired."""

    key: ReceiptKey
    token: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquiredReceipt:
    """A receipt that was acquired and must be run: hand it to a Receiver, or release it.

    attempt: 1 for the first run of the handler; counted when the receipt was acquired.
    """

    message: Message
    consumer: str
    token: UUID
    attempt: int

    @property
    def key(self) -> ReceiptKey:
        """Its identity."""
        return ReceiptKey(self.message.id, self.consumer)

    @property
    def lease(self) -> ReceiptLease:
        """What every verb that ends this attempt asks for."""
        return ReceiptLease(self.key, self.token)
