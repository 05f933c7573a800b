"""What every verb of the store stands on."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Table, and_, tuple_

from inbox.options import InboxOptions
from inbox.receipt import ReceiptLease
from inbox.row import key_columns
from inbox.state import ReceiptState
from uow.sql.clock import OperationalClock


@dataclass(frozen=True, slots=True)
class Ground:
    """The table, the options and the clock of one store."""

    table: Table
    options: InboxOptions
    clock: OperationalClock

    def held(self, leases: Collection[ReceiptLease]) -> ColumnElement[bool]:
        """Whether a row is held under one of these: its token, state and an unexpired lease.

        At exactly the expiry it is held no longer.
        """
        columns = self.table.c
        return and_(
            self._carries(leases),
            columns.state == ReceiptState.PROCESSING.value,
            columns.lease_expires_at > self.clock.now(),
        )

    def due(self) -> ColumnElement[bool]:
        """Whether anyone may take a row now: unfinished, its time come, held by nobody."""
        return self.table.c.next_attempt_at <= self.clock.now()

    def lease(self, token: UUID) -> dict[str, Any]:
        """The values of a row that is leased from now on."""
        expiry = self.clock.after(self.options.lease_seconds)
        return {
            "state": ReceiptState.PROCESSING.value,
            "lease_token": token,
            "lease_expires_at": expiry,
            "next_attempt_at": expiry,
        }

    def _carries(self, leases: Collection[ReceiptLease]) -> ColumnElement[bool]:
        columns = self.table.c
        if len(leases) == 1:  # the common case, in the plainest form for any planner
            (lease,) = leases
            return and_(
                columns.message_id == lease.key.message_id,
                columns.consumer == lease.key.consumer,
                columns.lease_token == lease.token,
            )
        return tuple_(*key_columns(self.table), columns.lease_token).in_(
            [(lease.key.message_id, lease.key.consumer, lease.token) for lease in leases]
        )
