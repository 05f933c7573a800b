"""How many receipts are unfinished or dead."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select, true, union_all

from inbox.ground import Ground
from inbox.state import UNFINISHED, ReceiptState
from inbox.table import FINISHED_INDEX
from inbox.view import InboxCounts
from uow.sql.dialect import database_of
from uow.sql.index_hint import read_by


def counts(connection: Connection, ground: Ground) -> InboxCounts:
    """Counts by state and the age of the oldest unfinished receipt. See InboxStore.counts."""
    columns, partial = ground.table.c, database_of(connection).partial_indexes
    unfinished = _by_state(ground, UNFINISHED, columns.next_attempt_at.is_not(None) if partial else true())
    dead = _by_state(ground, (ReceiptState.DEAD_LETTERED,), columns.completed_at.is_not(None))
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


def _by_state(
    ground: Ground, states: Sequence[ReceiptState], indexed: ColumnElement[bool]
) -> Select[*tuple[Any, ...]]:
    """One row for each state that occurs; `indexed` is the condition of the partial index to use."""
    columns = ground.table.c
    query = select(
        columns.state,
        func.count().label("number"),
        func.min(columns.received_at).label("oldest"),
        ground.clock.now().label("now"),
    ).where(columns.state.in_([state.value for state in states]), indexed)
    return read_by(query.group_by(columns.state), ground.table, FINISHED_INDEX)
