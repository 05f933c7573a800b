"""Prolonging and giving back leases, many at once."""

from collections.abc import Collection

from sqlalchemy import Connection, select

from inbox.chosen import choose, update_chosen
from inbox.ground import Ground
from inbox.receipt import ReceiptLease
from inbox.row import key_columns, lease_of
from inbox.state import ReceiptState
from uow.sql.index_hint import PRIMARY


def renew(
    connection: Connection, ground: Ground, leases: Collection[ReceiptLease]
) -> frozenset[ReceiptLease]:
    """Prolong all that are still held; gives those that are lost. See InboxStore.renew."""
    asked = frozenset(leases)
    if not asked:
        return frozenset()
    returning = [*key_columns(ground.table), ground.table.c.lease_token]
    lease_end = ground.clock.after(ground.options.lease_seconds)
    # A row that is locked is being finished by its holder at this moment: waiting for that commit could
    # cost all the others their lease, so it is left out and then looked at.
    free = choose(connection, ground, ground.held(connection, asked), index=PRIMARY, skip_locked=True)
    values = {"lease_expires_at": lease_end, "next_attempt_at": lease_end}
    renewed = update_chosen(connection, ground.table, free, values=values, returning=returning)
    left = asked - {lease_of(row) for row in renewed}
    if not left:
        return left
    still = connection.execute(select(*returning).where(ground.held(connection, left))).mappings()
    return left - {lease_of(row) for row in still}


def release(
    connection: Connection, ground: Ground, leases: Collection[ReceiptLease], *, delay_seconds: float
) -> frozenset[ReceiptLease]:
    """Give back all that are still held, their attempt not counted; gives those that are lost."""
    asked = frozenset(leases)
    if not asked:
        return frozenset()
    columns = ground.table.c
    released = update_chosen(
        connection,
        ground.table,
        choose(connection, ground, ground.held(connection, asked), index=PRIMARY, skip_locked=False),
        values={
            "state": ReceiptState.RECEIVED.value,
            "lease_expires_at": None,
            "next_attempt_at": ground.clock.after(delay_seconds),
            "attempt_count": columns.attempt_count - 1,
            "claim_count": 0,
        },
        returning=[*key_columns(ground.table), columns.lease_token],
        waits=True,
    )
    return asked - {lease_of(row) for row in released}
