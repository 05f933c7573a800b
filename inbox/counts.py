"""How many receipts are unfinished or dead."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select, union_all

from inbox.ground import Ground
from inbox.state import UNFINISHED, ReceiptState
from inbox.view import InboxCounts


def counts(connection: Connection, ground: Ground) -> InboxCounts:
    """Counts by state and the age of the oldest unfinished receipt. See InboxStore.counts."""
    columns = ground.table.c
    # The second half of each condition lets the partial indexes answer where there are such.
    unfinished = _by_state(
        ground,
        columns.state.in_([state.value for state in UNFINISHED]),
        columns.next_attempt_at.is_not(None),
    )
    dead = _by_state(
        ground, columns.state == ReceiptState.DEAD_LETTERED.value, columns.completed_at.is_not(None)
    )
    rows = {ReceiptState(row.state): row for row in connection.execute(union_all(unfinished, dead))}
    ages = [(rows[state].now - rows[state].oldest).total_seconds() for state in UNFINISHED if state in rows]

    def number(state: ReceiptState) -> int:
        return int(rows[state].number) if state in rows else 0

    return InboxCounts(
        received=number(ReceiptState.RECEIVED),
        processing=number(ReceiptState.PROCESSING),
        failed=number(ReceiptState.FAILED),
        dead_lettered=number(ReceiptState.DEAD_LETTERED),
        oldest_unfinished_age_seconds=max(0.0, *ages) if ages else None,
    )


def _by_state(ground: Ground, *conditions: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    columns = ground.table.c
    query = select(
        columns.state,
        func.count().label("number"),
        func.min(columns.received_at).label("oldest"),
        ground.clock.now().label("now"),
    )
    return query.where(*conditions).group_by(columns.state)
