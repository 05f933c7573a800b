"""Renewing leases of work in hand."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Connection, select, update

from outbox.ground import Ground
from uow.sql.dialect import database_of
from uow.sql.index_hint import PRIMARY, change_by


def renew(connection: Connection, ground: Ground, token: UUID, sequences: Collection[int]) -> frozenset[int]:
    """See OutboxStore.renew."""
    wanted = sorted(set(sequences))
    if not wanted:
        return frozenset()
    table = ground.table
    lease = ground.lease(token)
    prolong = update(table).where(ground.owned(connection, token, wanted)).values(lease)
    if database_of(connection).update_returning:
        renewed = connection.execute(prolong.returning(table.c.sequence)).scalars()
        return frozenset(wanted).difference(renewed)
    if connection.execute(change_by(prolong, PRIMARY)).rowcount == len(wanted):
        return frozenset()
    # The token stays with a renewed row, so what is ours can be asked afterwards.
    ours = connection.execute(
        select(table.c.sequence).where(ground.owned(connection, token, wanted))
    ).scalars()
    return frozenset(wanted).difference(ours)
