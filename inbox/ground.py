"""What every verb of the store stands on."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Table, and_

from inbox.options import InboxOptions
from inbox.receipt import ReceiptLease
from inbox.row import has_lease
from inbox.state import ReceiptState
from uow.sql.clock import OperationalClock
from uow.sql.planner import unestimated, unforeseen


@dataclass(frozen=True, slots=True)
class Ground:
    """The table, the options and the clock of one store."""

    table: Table
    options: InboxOptions
    clock: OperationalClock

    def held(self, connection: Connection, leases: Collection[ReceiptLease]) -> ColumnElement[bool]:
        """Whether a row is held under one of these: its token, state and an unexpired lease.

        At exactly the expiry it is held no longer.
        """
        columns = self.table.c
        running = and_(
            columns.state == ReceiptState.PROCESSING.value,
            columns.lease_expires_at > unforeseen(self.clock.now()),
        )
        return and_(has_lease(connection, self.table, leases), unestimated(running))

    def due(self) -> ColumnElement[bool]:
        """Whether anyone may take a row now: unfinished, its time come, held by nobody."""
        return self.table.c.next_attempt_at <= unforeseen(self.clock.now())

    def lease(self, token: UUID) -> dict[str, Any]:
        """The values of a row that is leased from now on."""
        expiry = self.clock.after(self.options.lease_seconds)
        return {
            "state": ReceiptState.PROCESSING.value,
            "lease_token": token,
            "lease_expires_at": expiry,
            "next_attempt_at": expiry,
        }
