"""The receipt's completion, written in the commit of the handler's effects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from inbox.errors import ReceiptLeaseLostError
from inbox.receipt import ReceiptLease
from inbox.store import InboxStore
from uow.participant import Staged


@dataclass(frozen=True, slots=True)
class ReceiptCompletion:
    """Stage it in a unit of work to complete a receipt with its commit."""

    lease: ReceiptLease


class ReceiptParticipant:
    """Completes staged receipts just before COMMIT; a lost lease raises and so rolls everything back."""

    def __init__(self, store: InboxStore) -> None:
        self._store = store

    def accepts(self, item: object) -> bool:
        """Whether `item` is a ReceiptCompletion."""
        return isinstance(item, ReceiptCompletion)

    def stage(self, item: Any, **options: Any) -> Staged:
        """Keep the lease; there is nothing to serialize."""
        if options:
            raise TypeError(f"a ReceiptCompletion takes no options, not {', '.join(sorted(options))}")
        return Staged(key=item.lease.key, content=item.lease.token, value=item.lease)

    def conflict(self, staged: Staged, earlier: Staged) -> Exception:
        """One receipt under two tokens: one of them must be stale."""
        return ReceiptLeaseLostError(staged.value.key)

    def write(self, connection: Connection, staged: Sequence[Staged]) -> str | None:
        """Complete each (a unit of work has one). Raises ReceiptLeaseLostError."""
        transaction_id = None
        for each in staged:
            completion = self._store.complete(connection, each.value)
            if completion is None:
                raise ReceiptLeaseLostError(each.value.key)
            transaction_id = completion.transaction_id
        return transaction_id

    def committed(self, staged: Sequence[Staged]) -> None:
        """Nothing to tell: the receiver counts what it ran."""
