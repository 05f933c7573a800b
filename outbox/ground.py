"""What every verb of the store stands on."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, FromClause, Table, and_

from outbox.options import OutboxOptions
from outbox.state import OutboxState
from uow.sql.among import among
from uow.sql.clock import OperationalClock
from uow.sql.planner import unforeseen


@dataclass(frozen=True, slots=True)
class Ground:
    """The table, the options and the clock of one store."""

    table: Table
    options: OutboxOptions
    clock: OperationalClock

    def due(self, table: FromClause) -> ColumnElement[bool]:
        """Whether anyone may claim a row of `table` (the outbox table or an alias of it) now."""
        return table.c.next_attempt_at <= unforeseen(self.clock.now())

    def owned(self, connection: Connection, token: UUID, sequences: list[int]) -> ColumnElement[bool]:
        """Whether a row is one of these and still ours; at exactly the expiry it is ours no longer."""
        columns = self.table.c
        return and_(
            among(connection, columns.sequence, sequences),
            columns.lease_token == token,
            columns.state == OutboxState.PUBLISHING.value,
            columns.lease_expires_at > self.clock.now(),
        )

    def lease(self, token: UUID) -> dict[str, Any]:
        """The values of a row that is leased from now on."""
        expiry = self.clock.after(self.options.lease_seconds)
        return {
            "state": OutboxState.PUBLISHING.value,
            "lease_token": token,
            "lease_expires_at": expiry,
            "next_attempt_at": expiry,
        }


NO_LEASE = {"lease_token": None, "lease_expires_at": None}
"""The values of a row that nobody holds."""
