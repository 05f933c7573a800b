"""Finding due jobs: by lanes, one for each queue and priority, each with its own range of the index.

Within a lane the longest due job comes first and jobs of the future come last, so that a look at a lane reads
what it takes and no more, however many jobs wait, run or have ended.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Select,
    SmallInteger,
    and_,
    bindparam,
    select,
    union_all,
)
from sqlalchemy.types import TypeEngine

from jobs.ground import Ground
from jobs.snapshot import JobRecord, record_columns, record_of
from jobs.state import JobState
from jobs.submission import PRIORITY_LIMIT
from jobs.table import DUE_INDEX, NAME_UNITS
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows
from uow.sql.index_hint import read_by
from uow.sql.planner import at_most, unestimated, unforeseen
from uow.sql.types import ExactText

AnySelect: TypeAlias = Select[*tuple[Any, ...]]
Lane: TypeAlias = tuple[str, int]
"""A queue and a priority."""

LIMIT: Final = "claim_limit"

_LANE_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {"queue": ExactText(NAME_UNITS), "priority": Integer()}
_LANES_AT_ONCE: Final = 16
_PRIORITIES: Final = range(PRIORITY_LIMIT, -PRIORITY_LIMIT - 1, -1)
_ORDER: Final = ("priority", "next_run_ticks")


def is_due(ground: Ground, job: FromClause) -> ColumnElement[bool]:
    """Whether a queued job may start now."""
    columns = job.c
    return and_(
        columns.next_run_ticks <= unforeseen(ground.clock.now_ticks()),
        unestimated(
            and_(
                columns.state == JobState.QUEUED.value,
                columns.cancel_requested == 0,
                columns.attempt_count - columns.forgiven_count < columns.max_attempts,
            )
        ),
    )


def given_lanes(database: Database) -> Given:
    """All lanes of some queues as rows; see `lanes_of`."""
    return given_rows(database, _LANE_COLUMNS, name="lanes_given")


def lanes_of(queues: Collection[str]) -> list[Lane]:
    """All lanes of these queues, as rows of `given_lanes`."""
    return [(queue, priority) for queue in sorted(set(queues)) for priority in _PRIORITIES]


def due_lanes(ground: Ground, given: Given) -> Select[str, int]:
    """The lanes that have a due job: the highest priority first, then the one whose job waits longest."""
    job = ground.job.alias("head")
    head = (
        read_by(select(job.c.next_run_ticks), job, DUE_INDEX)
        .where(job.c.queued_in == given.c["queue"], job.c.priority == given.c["priority"])
        .order_by(job.c.next_run_ticks)
        .limit(1)
        .correlate(given.source)
        .scalar_subquery()
    )
    lanes = select(
        given.c["queue"].label("queue"), given.c["priority"].label("priority"), head.label("head")
    ).subquery("lane")
    return (
        select(lanes.c.queue, lanes.c.priority)
        .where(lanes.c.head <= ground.clock.now_ticks())
        .order_by(lanes.c.priority.desc(), lanes.c.head)
    )


def find_lanes(connection: Connection, ground: Ground, queues: Collection[str]) -> list[Lane]:
    """The first of `due_lanes`, at most 16."""
    given, first = ground.built(_first_lanes, database_of(connection))
    return [(row[0], row[1]) for row in connection.execute(first, given.parameters(lanes_of(queues)))]


def in_lane(
    ground: Ground,
    job: FromClause,
    columns: Sequence[ColumnElement[Any]],
    queue: ColumnElement[Any],
    priority: ColumnElement[Any],
) -> AnySelect:
    """The first due jobs of a lane in their order, as many as the parameter LIMIT says."""
    return (
        read_by(select(*columns), job, DUE_INDEX)
        .where(job.c.queued_in == queue, job.c.priority == priority, is_due(ground, job))
        .order_by(job.c.next_run_ticks)
        .limit(at_most(bindparam(LIMIT, type_=Integer())))
    )


def in_lanes(arms: Sequence[tuple[FromClause, AnySelect]]) -> AnySelect:
    """The first of several lanes together: each arm is a select `in_lane` of its alias of the job table."""
    if len(arms) == 1:
        return arms[0][1]
    ordered = [
        arm.add_columns(*(job.c[name].label(f"by_{name}") for name in _ORDER)).subquery() for job, arm in arms
    ]
    every = union_all(*(select(arm) for arm in ordered)).subquery("every")
    asked = [column for column in every.c if not column.name.startswith("by_")]
    return (
        select(*asked)
        .order_by(every.c.by_priority.desc(), every.c.by_next_run_ticks)
        .limit(bindparam(LIMIT, type_=Integer()))
    )


def numbered_lane(number: int) -> tuple[ColumnElement[str], ColumnElement[int]]:
    """Parameters for the queue and the priority of one of several lanes; see `numbered_lanes`."""
    return (
        bindparam(f"queue_{number}", type_=ExactText(NAME_UNITS)),
        bindparam(f"priority_{number}", type_=SmallInteger()),
    )


def numbered_lanes(lanes: Sequence[Lane], limit: int) -> dict[str, Any]:
    """The values of the parameters of `numbered_lane` and LIMIT."""
    parameters: dict[str, Any] = {LIMIT: limit}
    for number, (queue, priority) in enumerate(lanes):
        parameters |= {f"queue_{number}": queue, f"priority_{number}": priority}
    return parameters


def get_due(connection: Connection, ground: Ground, queues: Collection[str], limit: int) -> list[JobRecord]:
    """See JobStore.get_due."""
    lanes = find_lanes(connection, ground, queues)
    if not lanes:
        return []
    due = ground.built(_due_records, database_of(connection), len(lanes))
    return [record_of(row) for row in connection.execute(due, numbered_lanes(lanes, limit)).mappings()]


def _first_lanes(ground: Ground, database: Database, _: None) -> tuple[Given, Select[str, int]]:
    given = given_lanes(database)
    return given, due_lanes(ground, given).limit(_LANES_AT_ONCE)


def _due_records(ground: Ground, database: Database, count: int) -> AnySelect:
    job, columns = ground.job, record_columns(ground.tables)
    return in_lanes([(job, in_lane(ground, job, columns, *numbered_lane(number))) for number in range(count)])
