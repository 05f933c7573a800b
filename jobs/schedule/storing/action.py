"""What people and hosts did to schedules, and why: kept for ever beside the schedules."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, select
from sqlalchemy.sql.dml import Insert
from sqlalchemy.types import TypeEngine

from jobs.schedule.storing.ground import ScheduleGround
from jobs.schedule.storing.table import NAME_UNITS
from jobs.table import OWNER_UNITS, TEXT_UNITS
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows, insert_given
from uow.sql.types import ExactText
from uow.text import clean_text
from uow.ticks import UtcInstant

_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "name": ExactText(NAME_UNITS),
    "kind": ExactText(16),
    "actor": ExactText(OWNER_UNITS),
    "reason": ExactText(TEXT_UNITS),
    "detail": ExactText(TEXT_UNITS),
}


class ActionKind(StrEnum):
    """What was done to a schedule."""

    DECLARED = "declared"
    CHANGED = "changed"
    REMOVED = "removed"
    DROPPED = "dropped"
    """Slots were missed and are not made up for."""
    OVERLAPPED = "overlapped"
    """A slot was left out, since the run before it had not ended."""
    TRIGGERED = "triggered"
    PAUSED = "paused"
    RESUMED = "resumed"
    RETRIED = "retried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that was done to a schedule. actor: who did it, a person or a host."""

    name: str
    kind: ActionKind
    actor: str
    reason: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAction(Action):
    """The same, as it is stored."""

    occurred: UtcInstant


def record_actions(connection: Connection, ground: ScheduleGround, actions: Sequence[Action]) -> None:
    """Store them, in their order; texts are made fit to be stored and cut."""
    if not actions:
        return
    given, statement = ground.built(_insert, database_of(connection))
    connection.execute(statement, given.parameters([_row(each) for each in actions]))


def find_actions(
    connection: Connection, ground: ScheduleGround, name: str | None, *, limit: int
) -> list[RecordedAction]:
    """What was done to one schedule, or to all, the latest first."""
    columns = ground.tables.action.c
    names = (*_COLUMNS, "occurred_ticks")
    query = select(*(columns[each] for each in names)).order_by(columns.sequence.desc()).limit(limit)
    if name is not None:
        query = query.where(columns.name == name)
    return [
        RecordedAction(
            name=row.name,
            kind=ActionKind(row.kind),
            actor=row.actor,
            reason=row.reason,
            detail=row.detail,
            occurred=row.occurred_ticks,
        )
        for row in connection.execute(query)
    ]


def _row(action: Action) -> tuple[Any, ...]:
    return (
        action.name,
        action.kind.value,
        clean_text(action.actor, units=OWNER_UNITS),
        None if action.reason is None else clean_text(action.reason, units=TEXT_UNITS),
        None if action.detail is None else clean_text(action.detail, units=TEXT_UNITS),
    )


def _insert(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Insert]:
    given = given_rows(database, _COLUMNS)
    return given, insert_given(given, ground.tables.action, given.c, occurred_ticks=ground.clock.now_ticks())
