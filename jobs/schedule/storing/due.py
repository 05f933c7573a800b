"""Finding the schedules whose slot has come, or whose waiting slot may."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, or_, select

from jobs.schedule.storing.ground import ScheduleGround
from jobs.schedule.storing.table import SCHEDULE_DUE_INDEX, SCHEDULE_WAITING_INDEX
from uow.sql.clock import read_ticks
from uow.sql.index_hint import read_by
from uow.sql.planner import unforeseen
from uow.ticks import UtcInstant


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    """A schedule as it was when it was found. slot: the stored one; waiting: one that waits, if any does.

    trigger_text: what its slots were worked out with. fencing_number: what a change of it must name.
    """

    name: str
    slot: UtcInstant
    waiting: UtcInstant | None
    trigger_text: str | None
    fencing_number: int


def find_due(
    connection: Connection,
    ground: ScheduleGround,
    *,
    late_seconds: float,
    after: DueSchedule | None,
    limit: int,
) -> tuple[UtcInstant, Sequence[DueSchedule]]:
    """The present, and a page of the schedules due for at least so long, the longest due first."""
    place = None if after is None else (after.slot, after.name)
    query = _page(ground, "next_fire_ticks", SCHEDULE_DUE_INDEX, late_seconds, place)
    found = [_due(*row) for row in connection.execute(query.limit(limit))]
    return read_ticks(connection, ground.clock), found


def find_waiting(
    connection: Connection,
    ground: ScheduleGround,
    *,
    late_seconds: float,
    after: DueSchedule | None,
    limit: int,
) -> Sequence[DueSchedule]:
    """A page of the schedules with a waiting slot that came at least so long ago, the oldest slot first."""
    place = None if after is None else (after.waiting, after.name)
    query = _page(ground, "waiting_nominal_ticks", SCHEDULE_WAITING_INDEX, late_seconds, place)
    rows = connection.execute(query.limit(limit))
    return [_due(name, slot or waiting, waiting, text, number) for name, slot, waiting, text, number in rows]


def _page(
    ground: ScheduleGround,
    instant: str,
    index: str,
    late_seconds: float,
    place: tuple[UtcInstant | None, str] | None,
) -> Select[*tuple[Any, ...]]:
    columns = ground.tables.schedule.c
    column = columns[instant]
    query = (
        read_by(_columns(ground), ground.tables.schedule, index)
        .where(column <= unforeseen(ground.clock.ticks_after(-late_seconds)))
        .order_by(column, columns.name)
    )
    if place is None:
        return query
    last, name = place
    return query.where(column >= last, or_(column > last, and_(column == last, columns.name > name)))


def _due(
    name: str, slot: UtcInstant, waiting: UtcInstant | None, text: str | None, number: int
) -> DueSchedule:
    return DueSchedule(name=name, slot=slot, waiting=waiting, trigger_text=text, fencing_number=number)


def _columns(ground: ScheduleGround) -> Select[*tuple[Any, ...]]:
    columns = ground.tables.schedule.c
    return select(
        columns.name,
        columns.next_fire_ticks,
        columns.waiting_nominal_ticks,
        columns.trigger_text,
        columns.fencing_number,
    )
