"""Ordering keys: a row waits until no earlier row of its key is unfinished or dead-lettered."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, FromClause, ScalarSelect, and_, select, update

from outbox.ground import Ground
from outbox.state import OutboxState
from outbox.table import ORDERING_INDEX
from uow.sql.among import among
from uow.sql.index_hint import PRIMARY, change_by, read_by
from uow.sql.planner import exactly

HELD_SECONDS: Final = 900.0
"""How long a held row is put off. Whoever lets the key go makes the next row due at once, so this only
bounds the wait should someone remove rows by hand."""


def held(ground: Ground, row: FromClause) -> ColumnElement[bool]:
    """Whether an earlier row holds back this one; reads one index entry, however many there are."""
    return and_(row.c.holding_key.is_not(None), _head(ground, row, row.c.holding_key) < row.c.sequence)


def make_next_due(connection: Connection, ground: Ground, let_go: Sequence[int]) -> None:
    """Make due what was put off behind these rows, which have let go of their keys; two statements.

    A claim that puts rows off at the same moment either sees that the key is free or is waited for here.
    """
    gone = ground.table.alias("gone")
    heads = select(_head(ground, gone, gone.c.ordering_key)).where(among(connection, gone.c.sequence, let_go))
    found = connection.execute(read_by(heads.distinct(), gone, PRIMARY)).scalars()
    _make_due(connection, ground, [sequence for sequence in found if sequence is not None])


def recheck_held(connection: Connection, ground: Ground, put_off: Sequence[int]) -> None:
    """Make those due again whose key was let go while this transaction put them off."""
    row = ground.table.alias("row_put_off")
    free = select(row.c.sequence).where(among(connection, row.c.sequence, put_off), ~held(ground, row))
    _make_due(connection, ground, list(connection.execute(read_by(free, row, PRIMARY)).scalars()))


def _head(ground: Ground, row: FromClause, key: ColumnElement[str]) -> ScalarSelect[int]:
    """The first row that holds the ordering key of `row`."""
    holder = ground.table.alias("holder")
    head = (
        select(holder.c.sequence)
        .where(exactly(holder.c.holding_key, key))
        .order_by(holder.c.holding_key, holder.c.sequence)
        .limit(1)
    )
    return read_by(head, holder, ORDERING_INDEX).correlate(row).scalar_subquery()


def _make_due(connection: Connection, ground: Ground, sequences: Sequence[int]) -> None:
    if not sequences:
        return
    columns = ground.table.c
    pending = update(ground.table).where(
        among(connection, columns.sequence, sequences), columns.state == OutboxState.PENDING.value
    )
    connection.execute(change_by(pending, PRIMARY).values(next_attempt_at=ground.clock.now()))
