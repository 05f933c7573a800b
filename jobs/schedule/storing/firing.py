"""Firing: slots become jobs, in one transaction that changes the schedules, adds the jobs and records it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Update,
    and_,
    bindparam,
    case,
    func,
    select,
    type_coerce,
)
from sqlalchemy.types import TypeEngine

from jobs.schedule.declaring.run_policy import OverlapPolicy
from jobs.schedule.storing.action import Action, ActionKind, record_actions
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.due import DueSchedule
from jobs.schedule.storing.ground import SCOPE_HASH, ScheduleGround
from jobs.schedule.storing.run_identity import job_of, slot_job_id
from jobs.schedule.storing.run_record import StagedRun, stage_runs
from jobs.schedule.storing.slot_plan import SlotPlan
from jobs.schedule.storing.table import NAME_UNITS
from jobs.state import JobState
from jobs.table import OWNER_UNITS
from uow.sql.change_given import change_given
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows
from uow.sql.types import ExactText, InstantTicks
from uow.ticks import UtcInstant

_SEEN_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "name": ExactText(NAME_UNITS),
    "fencing_number": BigInteger(),
}
_CHANGE_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    **_SEEN_COLUMNS,
    "next_fire_ticks": BigInteger(),
    "last_nominal_ticks": BigInteger(),
    "waiting_nominal_ticks": BigInteger(),
    "moves_on": Integer(),
    "fired": BigInteger(),
    "misfired": BigInteger(),
    "overlapped": BigInteger(),
}


class FiringOutcome(StrEnum):
    """What became of a slot."""

    FIRED = "fired"
    """Its job is stored."""
    WAITING = "waiting"
    """It waits for the end of the run before it."""
    OVERLAPPED = "overlapped"
    """It was left out, since a run before it has not ended."""
    DROPPED = "dropped"
    """It was missed, and its policy does not make up for it."""
    HELD = "held"
    """It stays in its place until the run before it has ended; nothing was changed."""
    LOST = "lost"
    """Another host, or an operator, was first; nothing was changed."""


UNMOVED: Final = frozenset({FiringOutcome.HELD, FiringOutcome.LOST})
"""Outcomes that leave the schedule as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One slot to fire: what was found, what is to become of it, and what its job is like.

    waiting: it is the slot that waits, and the schedule does not move on by it. in_turn: a slot that was
    missed, or came before a run that has not ended was queued, is not left out, but stays where it is until
    then. jitter_ticks: how long after the slot the job may start.
    """

    due: DueSchedule
    plan: SlotPlan
    overlap: OverlapPolicy
    queue: str
    max_attempts: int
    priority: int
    jitter_ticks: int = 0
    waiting: bool = False
    in_turn: bool = False

    def run(self, nominal: UtcInstant) -> StagedRun:
        """The run of this slot, with its job; the same whoever fires it."""
        submission = job_of(
            self.due.name,
            job_id=slot_job_id(self.due.name, nominal),
            nominal=nominal,
            cause=self.plan.cause,
            queue=self.queue,
            max_attempts=self.max_attempts,
            priority=self.priority,
            not_before=UtcInstant(nominal.ticks + self.jitter_ticks) if self.jitter_ticks else None,
        )
        return StagedRun(name=self.due.name, nominal=nominal, cause=self.plan.cause, submission=submission)


def fire(
    connection: Connection, ground: ScheduleGround, firings: Sequence[Firing], *, host: str
) -> list[FiringOutcome]:
    """See ScheduleStore.fire."""
    if not firings:
        return []
    database = database_of(connection)
    given, lock = ground.built(_lock, database)
    seen = [(firing.due.name, firing.due.fencing_number) for firing in firings]
    ours = set(connection.execute(lock, given.parameters(seen)).scalars())
    busy = _unfinished(connection, ground, [name for name, _ in seen if name in ours])
    outcomes = [
        _outcome(firing, busy.get(firing.due.name)) if firing.due.name in ours else FiringOutcome.LOST
        for firing in firings
    ]
    decided = [
        (firing, outcome) for firing, outcome in zip(firings, outcomes, strict=True) if outcome not in UNMOVED
    ]
    if decided:
        _write(connection, ground, decided, host)
    return outcomes


def _outcome(firing: Firing, busy_since: UtcInstant | None) -> FiringOutcome:
    slot = firing.plan.nominal
    if slot is None:
        return FiringOutcome.DROPPED
    if firing.overlap is OverlapPolicy.ALLOW and not firing.waiting:
        return FiringOutcome.FIRED
    one_waits = firing.due.waiting is not None and not firing.waiting
    if busy_since is None:  # when the run has ended just now, the one that waits goes first
        return FiringOutcome.HELD if one_waits else FiringOutcome.FIRED
    came_before = firing.plan.cause is Cause.MISFIRE or slot < busy_since
    if firing.waiting or (firing.in_turn and came_before):
        return FiringOutcome.HELD
    queues = firing.overlap is OverlapPolicy.QUEUE and not one_waits
    return FiringOutcome.WAITING if queues else FiringOutcome.OVERLAPPED


def _write(
    connection: Connection,
    ground: ScheduleGround,
    decided: Sequence[tuple[Firing, FiringOutcome]],
    host: str,
) -> None:
    given, change = ground.built(_change, database_of(connection))
    rows = [_change_row(firing, outcome) for firing, outcome in decided]
    connection.execute(change, given.parameters(rows) | {"firing_host": host})
    stage_runs(
        connection,
        ground,
        [
            firing.run(firing.plan.nominal)
            for firing, outcome in decided
            if outcome is FiringOutcome.FIRED and firing.plan.nominal is not None
        ],
    )
    record_actions(
        connection,
        ground,
        [each for firing, outcome in decided for each in _actions(firing, outcome, host)],
    )


def _unfinished(
    connection: Connection, ground: ScheduleGround, names: Sequence[str]
) -> Mapping[str, UtcInstant]:
    """Those of these schedules of which a job has not ended, and when the oldest such was queued."""
    if not names:
        return {}
    given, query = ground.built(_read_unfinished, database_of(connection))
    rows = connection.execute(query, given.parameters([(name,) for name in names]))
    return {row[0]: row[1] for row in rows}


def _change_row(firing: Firing, outcome: FiringOutcome) -> tuple[Any, ...]:
    plan, due = firing.plan, firing.due
    waiting = due.waiting
    if firing.waiting:
        waiting = None
    elif outcome is FiringOutcome.WAITING:
        waiting = plan.nominal
    missed = 0 if plan.dropped is None else plan.dropped.count
    return (
        due.name,
        due.fencing_number,
        None if plan.next_fire is None else plan.next_fire.ticks,
        plan.handled.ticks,
        None if waiting is None else waiting.ticks,
        int(not firing.waiting),
        int(outcome is FiringOutcome.FIRED),
        missed,
        int(outcome is FiringOutcome.OVERLAPPED),
    )


def _actions(firing: Firing, outcome: FiringOutcome, host: str) -> list[Action]:
    found: list[Action] = []
    plan = firing.plan
    if plan.dropped is not None:
        detail = str(plan.dropped)
        found.append(Action(name=firing.due.name, kind=ActionKind.DROPPED, actor=host, detail=detail))
    if outcome is FiringOutcome.OVERLAPPED:
        detail = f"slot {plan.nominal}: the run before it has not ended"
        found.append(Action(name=firing.due.name, kind=ActionKind.OVERLAPPED, actor=host, detail=detail))
    return found


def _lock(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Select[str]]:
    given, schedule = given_rows(database, _SEEN_COLUMNS), ground.tables.schedule
    # An outer join, so that MySQL looks up, and locks, these rows alone.
    joined = given.source.outerjoin(schedule, _seen(ground, given))
    query = select(schedule.c.name).select_from(joined).where(schedule.c.name.is_not(None))
    if database.update_returning:
        query = select(schedule.c.name).join_from(given.source, schedule, _seen(ground, given))
    return given, query.order_by(schedule.c.name).with_for_update(of=schedule)


def _seen(ground: ScheduleGround, given: Given) -> ColumnElement[bool]:
    schedule = ground.tables.schedule.c
    return and_(
        schedule.name == given.c["name"],
        schedule.fencing_number == given.c["fencing_number"],
        schedule.paused == 0,
        schedule.declared == 1,
        schedule.enabled == 1,
    )


def _change(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Update]:
    given, schedule = given_rows(database, _CHANGE_COLUMNS), ground.tables.schedule.c
    moves_on = given.c["moves_on"] == 1
    values: dict[str, Any] = {
        name: case((moves_on, type_coerce(given.c[name], InstantTicks())), else_=schedule[name])
        for name in ("next_fire_ticks", "last_nominal_ticks")
    }
    values["waiting_nominal_ticks"] = type_coerce(given.c["waiting_nominal_ticks"], InstantTicks())
    values |= {
        "fencing_number": schedule.fencing_number + 1,
        "fired_count": schedule.fired_count + given.c["fired"],
        "misfired_count": schedule.misfired_count + given.c["misfired"],
        "overlapped_count": schedule.overlapped_count + given.c["overlapped"],
        "host": bindparam("firing_host", type_=ExactText(OWNER_UNITS)),
        "changed_ticks": ground.clock.now_ticks(),
    }
    return given, change_given(given, ground.tables.schedule, _seen(ground, given), values)


def _read_unfinished(
    ground: ScheduleGround, database: Database, _: None
) -> tuple[Given, Select[str, UtcInstant]]:
    given = given_rows(database, {"name": ExactText(NAME_UNITS)})
    run, job = ground.tables.run, ground.jobs.ground.job
    its_job = and_(job.c.scope_hash == SCOPE_HASH, job.c.job_id == run.c.job_id)
    unfinished = job.c.state.in_([JobState.QUEUED.value, JobState.RUNNING.value])
    query = (
        select(run.c.open_name, func.min(run.c.staged_ticks))
        .select_from(given.source.join(run, run.c.open_name == given.c["name"]).join(job, its_job))
        .where(unfinished)
        .group_by(run.c.open_name)
    )
    return given, query
