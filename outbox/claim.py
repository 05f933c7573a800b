"""Claiming: the rows that are due are leased to one relay, all in one statement."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select, and_, case, select, update

from outbox.claimed import Claim, ClaimedMessage
from outbox.ground import NO_LEASE, Ground
from outbox.ordering import HELD_SECONDS, held, recheck_held
from outbox.row import message_columns, message_of
from outbox.state import OutboxState
from outbox.table import DUE_INDEX
from uow.sql.chosen import chosen_by
from uow.sql.dialect import database_of
from uow.sql.index_hint import PRIMARY, change_by, joined_as_written, read_by
from uow.sql.planner import at_most

_ROUNDS: Final = 5
_LOOK_AHEAD: Final = 8


def claim(connection: Connection, ground: Ground, limit: int) -> Claim:
    """See OutboxStore.claim.

    The first due rows are taken in hand, `limit` of them. Those behind an earlier row of their ordering key
    are put off, so that the next claim does not meet them again, however many they are; the others are
    leased. A full round in which all are put off is followed by another one, a few times; then the caller
    is told that there may be more.
    """
    token = uuid4()
    row = ground.table.alias("due")
    ordered = database_of(connection).locks_only_what_it_takes
    choice = (_first_due if ordered else _first_due_by_key)(ground, row, limit)
    leased: list[ClaimedMessage] = []
    more = True
    rounds = 0
    while more and not leased and rounds < _ROUNDS:
        leased, put_off = take(connection, ground, token, row, choice)
        if put_off:
            recheck_held(connection, ground, put_off)
        more = len(leased) + len(put_off) == limit
        rounds += 1
    return Claim(token, tuple(leased), more)


def _claimable(ground: Ground, row: FromClause) -> ColumnElement[bool]:
    return and_(ground.due(row), row.c.claim_count < ground.options.isolate_after)


def _first_due(ground: Ground, row: FromClause, limit: int) -> Select[int, bool]:
    return (
        select(row.c.sequence, held(ground, row).label("held"))
        .where(_claimable(ground, row))
        .order_by(row.c.next_attempt_at, row.c.sequence)
        .limit(at_most(limit))
        .with_for_update(skip_locked=True)
    )


def _first_due_by_key(ground: Ground, row: FromClause, limit: int) -> Select[int, bool]:
    """For InnoDB, which locks the entry after a range too: there a row that someone else has in hand.

    The first due rows are looked up without locks, some more than are asked for since others may be taking
    the same ones; then each is locked by its key, if it is free and still due, until there are enough.
    """
    ahead = ground.table.alias("ahead")
    first = (
        read_by(select(ahead.c.sequence), ahead, DUE_INDEX)
        .where(_claimable(ground, ahead))
        .order_by(ahead.c.next_attempt_at, ahead.c.sequence)
        .limit(limit * _LOOK_AHEAD)
        .subquery("first_due")
    )
    return (
        read_by(joined_as_written(select(row.c.sequence, held(ground, row).label("held"))), row, PRIMARY)
        .select_from(first.join(row, first.c.sequence == row.c.sequence))
        .where(_claimable(ground, row))
        .limit(limit)
        .with_for_update(skip_locked=True)
    )


def take(
    connection: Connection, ground: Ground, token: UUID, row: FromClause, choice: Select[int, bool]
) -> tuple[list[ClaimedMessage], list[int]]:
    """Lease the rows of `choice` that are not held and put off those that are.

    `choice` selects sequence and `held` from `row`, an alias of the table, and locks what it selects.
    Returns the leased rows in order of sequence and the sequences put off.
    """
    if database_of(connection).update_returning:
        rows = _take_at_once(connection, ground, token, choice)
    else:
        rows = _lock_then_take(connection, ground, token, row, choice)
    leased = [
        ClaimedMessage(each.sequence, message_of(each), each.failure_count) for each in rows if not each.held
    ]
    leased.sort(key=lambda message: message.sequence)
    return leased, [each.sequence for each in rows if each.held]


def _take_at_once(
    connection: Connection, ground: Ground, token: UUID, choice: Select[int, bool]
) -> Sequence[Row[Any]]:
    table, chosen = ground.table, choice.cte("chosen")
    put_off = table.c.sequence.in_(select(chosen.c.sequence).where(chosen.c.held))
    waiting = _waiting(ground)
    values = {
        name: case((put_off, waiting[name]), else_=value) for name, value in ground.lease(token).items()
    }
    values["claim_count"] = case((put_off, table.c.claim_count), else_=table.c.claim_count + 1)
    waits = table.c.state == OutboxState.PENDING.value
    statement = (
        update(table)
        .where(chosen_by(table.c.sequence, select(chosen.c.sequence)))
        .values(values)
        .returning(
            table.c.sequence,
            table.c.failure_count,
            waits.label("held"),
            *message_columns(table, without_payload=waits),
        )
    )
    return connection.execute(statement).all()


def _lock_then_take(
    connection: Connection, ground: Ground, token: UUID, row: FromClause, choice: Select[int, bool]
) -> Sequence[Row[Any]]:
    table = ground.table
    message = message_columns(row, without_payload=held(ground, row))
    rows = connection.execute(choice.add_columns(row.c.failure_count, *message)).all()
    leased = [each.sequence for each in rows if not each.held]
    put_off = [each.sequence for each in rows if each.held]
    if leased:
        lease = update(table).where(table.c.sequence.in_(leased)).values(ground.lease(token))
        connection.execute(change_by(lease, PRIMARY).values(claim_count=table.c.claim_count + 1))
    if put_off:
        wait = update(table).where(table.c.sequence.in_(put_off)).values(_waiting(ground))
        connection.execute(change_by(wait, PRIMARY))
    return rows


def _waiting(ground: Ground) -> dict[str, Any]:
    return {
        "state": OutboxState.PENDING.value,
        **NO_LEASE,
        "next_attempt_at": ground.clock.after(HELD_SECONDS),
    }
