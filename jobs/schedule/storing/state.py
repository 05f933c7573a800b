"""Schedules as they are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from jobs.schedule.storing.ground import ScheduleGround
from jobs.schedule.storing.run_record import RunRecord, run_of
from uow.ticks import UtcInstant


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule as it is stored.

    declared: False once its declaration is gone. next_fire: None while it has no slot to come. last_nominal:
    the newest slot that was decided. waiting: a slot that waits for the end of a run. host: who fired last,
    or stored it.
    fired, misfired, overlapped: how many slots became runs, were missed, and were left out since a run had
    not ended. fencing_number: grows with each change.
    """

    name: str
    module: str
    trigger_text: str | None
    override_source: str | None
    declared: bool
    enabled: bool
    critical: bool
    paused: bool
    next_fire: UtcInstant | None
    last_nominal: UtcInstant | None
    waiting: UtcInstant | None
    last_success: UtcInstant | None
    fired: int
    misfired: int
    overlapped: int
    host: str | None
    fencing_number: int
    last_run: RunRecord | None = None


def find_states(connection: Connection, ground: ScheduleGround) -> Sequence[ScheduleState]:
    """All stored schedules with their last run, by name; two statements."""
    last_runs = _last_runs(connection, ground)
    table = ground.tables.schedule
    rows = connection.execute(select(table).order_by(table.c.name)).mappings()
    return [
        ScheduleState(
            name=row["name"],
            module=row["module"],
            trigger_text=row["trigger_text"],
            override_source=row["override_source"],
            declared=bool(row["declared"]),
            enabled=bool(row["enabled"]),
            critical=bool(row["critical"]),
            paused=bool(row["paused"]),
            next_fire=row["next_fire_ticks"],
            last_nominal=row["last_nominal_ticks"],
            waiting=row["waiting_nominal_ticks"],
            last_success=row["last_success_ticks"],
            fired=row["fired_count"],
            misfired=row["misfired_count"],
            overlapped=row["overlapped_count"],
            host=row["host"],
            fencing_number=row["fencing_number"],
            last_run=last_runs.get(row["name"]),
        )
        for row in rows
    ]


def _last_runs(connection: Connection, ground: ScheduleGround) -> Mapping[str, RunRecord]:
    """The latest run of each schedule, each looked up in the index of its history."""
    schedule, run = ground.tables.schedule, ground.tables.run
    older = run.alias("older")
    latest = (
        select(func.max(older.c.staged_ticks))
        .where(older.c.name == schedule.c.name)
        .correlate(schedule)
        .scalar_subquery()
    )
    query: Any = select(run).select_from(
        schedule.join(run, (run.c.name == schedule.c.name) & (run.c.staged_ticks == latest))
    )
    return {row["name"]: run_of(row) for row in connection.execute(query).mappings()}
