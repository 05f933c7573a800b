"""Suspects: rows claimed again and again without any verdict, because their relay dies with them."""

from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Connection, FromClause, and_, select

from outbox.change import change_rows
from outbox.claim import take
from outbox.claimed import Claim
from outbox.ground import NO_LEASE, Ground
from outbox.ordering import held
from outbox.state import OutboxState
from outbox.table import DUE_INDEX
from uow.sql.index_hint import PRIMARY, read_by

RELAY_DIED: Final = "relay_died"
"""The error code of a row that was buried."""

_LOOK_AT: Final = 1000
_AT_ONCE: Final = 100


def claim_suspect(connection: Connection, ground: Ground) -> Claim:
    """See OutboxStore.claim_suspect."""
    token = uuid4()
    isolated = ground.options.isolate_after
    suspects = _first_due_claimed(connection, ground, isolated)
    if not suspects:
        return Claim(token, ())
    row = ground.table.alias("suspect")
    one = (
        select(row.c.sequence, held(ground, row).label("held"))
        .where(row.c.sequence.in_(suspects), ground.due(row), row.c.claim_count >= isolated)
        .where(~held(ground, row))
        .order_by(row.c.next_attempt_at, row.c.sequence)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    leased, _ = take(connection, ground, token, row, read_by(one, row, PRIMARY))
    return Claim(token, tuple(leased), more=bool(leased) and len(suspects) > 1)


def bury_suspects(connection: Connection, ground: Ground) -> list[UUID]:
    """See OutboxStore.bury_suspects."""
    limit = ground.options.bury_after
    doomed = _first_due_claimed(connection, ground, limit)
    if not doomed:
        return []
    table = ground.table
    where: ColumnElement[bool] = and_(
        table.c.sequence.in_(doomed),
        table.c.state == OutboxState.PUBLISHING.value,
        table.c.claim_count >= limit,
        ground.due(table),
    )
    buried = change_rows(
        connection,
        ground,
        where=where,
        index=PRIMARY,
        values={
            "state": OutboxState.DEAD_LETTERED.value,
            **NO_LEASE,
            "next_attempt_at": None,
            "completed_at": ground.clock.now(),
            "error_code": RELAY_DIED,
            "error_detail": "each relay that claimed it ended without a verdict, at last when it was alone",
        },
        answer=[table.c.event_id],
    )
    return [row.event_id for row in buried]


def _first_due_claimed(connection: Connection, ground: Ground, claims: int) -> list[int]:
    """Sequences among the first due rows that were claimed `claims` times or more without a verdict.

    Only the first rows are looked at: suspects are due like others, so they get there, and a look does not
    become slower with the number of rows that wait.
    """
    row: FromClause = ground.table.alias("due")
    first = (
        read_by(select(row.c.sequence, row.c.claim_count, row.c.next_attempt_at), row, DUE_INDEX)
        .where(ground.due(row))
        .order_by(row.c.next_attempt_at, row.c.sequence)
        .limit(_LOOK_AT)
        .subquery("first_due")
    )
    suspects = (
        select(first.c.sequence)
        .where(first.c.claim_count >= claims)
        .order_by(first.c.next_attempt_at, first.c.sequence)
        .limit(_AT_ONCE)
    )
    return list(connection.execute(suspects).scalars())
