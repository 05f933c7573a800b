"""Ordering keys: a row waits until no earlier row of its key is unfinished or dead-lettered."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, FromClause, and_, select, update

from outbox.ground import Ground
from outbox.state import OutboxState
from uow.sql.index_hint import PRIMARY, change_by, read_by

HELD_SECONDS: Final = 900.0
"""How long a held row is put off. Whoever lets the key go makes the next row due at once, so this only
bounds the wait should someone remove rows by hand."""


def held(ground: Ground, row: FromClause) -> ColumnElement[bool]:
    """Whether an earlier row holds back this one; reads one index entry, however many there are."""
    holder = ground.table.alias("holder")
    head = (
        select(holder.c.sequence)
        .where(holder.c.holding_key == row.c.holding_key)
        .order_by(holder.c.sequence)
        .limit(1)
        .correlate(row)
        .scalar_subquery()
    )
    return and_(row.c.holding_key.is_not(None), head < row.c.sequence)


def make_next_due(connection: Connection, ground: Ground, let_go: Sequence[int]) -> None:
    """Make due what was put off behind these rows, which have let go of their keys; two statements.

    A claim that puts rows off at the same moment either sees that the key is free or is waited for here.
    """
    table = ground.table
    gone, following = table.alias("gone"), table.alias("following")
    head = (
        select(following.c.sequence)
        .where(following.c.holding_key == gone.c.ordering_key)
        .order_by(following.c.sequence)
        .limit(1)
        .correlate(gone)
        .scalar_subquery()
    )
    heads = read_by(select(head).where(gone.c.sequence.in_(let_go)).distinct(), gone, PRIMARY)
    _make_due(connection, ground, [each for each in connection.execute(heads).scalars() if each is not None])


def recheck_held(connection: Connection, ground: Ground, put_off: Sequence[int]) -> None:
    """Make those due again whose key was let go while this transaction put them off."""
    row = ground.table.alias("row_put_off")
    free = select(row.c.sequence).where(row.c.sequence.in_(put_off), ~held(ground, row))
    _make_due(connection, ground, list(connection.execute(read_by(free, row, PRIMARY)).scalars()))


def _make_due(connection: Connection, ground: Ground, sequences: Sequence[int]) -> None:
    if not sequences:
        return
    columns = ground.table.c
    pending = update(ground.table).where(
        columns.sequence.in_(sequences), columns.state == OutboxState.PENDING.value
    )
    connection.execute(change_by(pending, PRIMARY).values(next_attempt_at=ground.clock.now()))
