"""Starting where an UPDATE says which rows it changed, and in one statement where WITH may change rows."""

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Select,
    Update,
    and_,
    bindparam,
    case,
    null,
    select,
    true,
    update,
)
from sqlalchemy.sql.dml import Insert

from jobs.due import (
    LIMIT,
    AnySelect,
    due_lanes,
    find_lanes,
    given_lanes,
    in_lane,
    in_lanes,
    is_due,
    lanes_of,
    numbered_lane,
    numbered_lanes,
)
from jobs.ground import KEY_COLUMNS, Ground, same_key
from jobs.key import JobKey
from jobs.snapshot import started_columns
from jobs.starting import Starter, insert_attempts, started_values
from jobs.state import JobState
from uow.sql.chosen import chosen_by
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows
from uow.sql.random_token import random_token
from uow.sql.row_address import row_address

Rows: TypeAlias = Sequence[Sequence[Any]]


def start_due(
    connection: Connection, ground: Ground, queues: Collection[str], limit: int, starter: Starter
) -> Rows:
    """Start the first due jobs of these queues."""
    database = database_of(connection)
    if database.changing_ctes:
        given, started = ground.built(_start_lane_after_lane, database, starter.picky)
        parameters = given.parameters(lanes_of(queues)) | {LIMIT: limit} | starter.parameters
        return connection.execute(started, parameters).all()
    lanes = find_lanes(connection, ground, queues)
    if not lanes:
        return []
    change = ground.built(_start_lanes, database, (len(lanes), starter.picky))
    return _with_attempts(connection, ground, change, numbered_lanes(lanes, limit) | starter.parameters)


def start_one(connection: Connection, ground: Ground, key: JobKey, starter: Starter) -> Rows:
    """Start this job if it is due."""
    database = database_of(connection)
    parameters = {"key_scope_hash": key.scope_hash, "key_job_id": key.job_id} | starter.parameters
    change = ground.built(_start_key, database)
    if database.changing_ctes:
        return connection.execute(change, parameters).all()
    return _with_attempts(connection, ground, change, parameters)


def _with_attempts(connection: Connection, ground: Ground, change: Any, parameters: dict[str, Any]) -> Rows:
    rows: Rows = connection.execute(change, parameters).all()
    keys = [row[:2] for row in rows if row[-1] is not None]
    if keys:
        given, attempts = ground.built(insert_given_attempts, database_of(connection))
        connection.execute(attempts, given.parameters(keys))
    return rows


def insert_given_attempts(ground: Ground, database: Database, _: None) -> tuple[Given, Insert]:
    """Adds the attempts of jobs that have started, given by their keys."""
    given = given_rows(database, KEY_COLUMNS)
    # An outer join, so that MySQL looks up these jobs alone.
    return given, insert_attempts(
        ground, ground.job, given.source.outerjoin(ground.job, same_key(ground.job, given.c))
    )


def _start_lane_after_lane(ground: Ground, database: Database, picky: bool) -> tuple[Given, AnySelect]:
    """A loop over the lanes in their order, which ends with the job that fills the limit.

    Ordering the whole instead would read, and lock, the first jobs of every lane.
    """
    given = given_lanes(database)
    lanes = due_lanes(ground, given).cte("lanes").prefix_with("MATERIALIZED")
    job = ground.job.alias("due")
    one = in_lane(ground, job, [row_address(job).label("address")], lanes.c.queue, lanes.c.priority)
    locked = one.with_for_update(skip_locked=True, of=job).lateral("one")
    limit = bindparam(LIMIT, type_=Integer())
    choice = select(locked.c.address).select_from(lanes.join(locked, true())).limit(limit)
    change = _change(ground, picky).where(chosen_by(row_address(ground.job), choice))
    return given, _and_attempts(ground, change)


def _start_lanes(ground: Ground, database: Database, variant: tuple[int, bool]) -> Any:
    count, picky = variant
    job = ground.job.alias("due")
    address = [row_address(job).label("address")]
    arms = [(job, in_lane(ground, job, address, *numbered_lane(number))) for number in range(count)]
    change = _change(ground, picky).where(chosen_by(row_address(ground.job), in_lanes(arms)))
    return change.returning(*_told(ground.job))


def _start_key(ground: Ground, database: Database, _: None) -> Any:
    columns = ground.job.c
    key = and_(
        columns.scope_hash == bindparam("key_scope_hash", type_=columns.scope_hash.type),
        columns.job_id == bindparam("key_job_id", type_=columns.job_id.type),
    )
    change = _change(ground, picky=False).where(key, is_due(ground, ground.job))
    return _and_attempts(ground, change) if database.changing_ctes else change.returning(*_told(ground.job))


def _change(ground: Ground, picky: bool) -> Update:
    return update(ground.job).values(started_values(ground, random_token(), picky=picky))


def _told(job: FromClause) -> list[ColumnElement[Any]]:
    """The job as it is now, and the token; one that is put off may carry that of its last attempt."""
    started = job.c.state == JobState.RUNNING.value
    return [*started_columns(job), case((started, job.c.attempt_token), else_=null()).label("token")]


def _and_attempts(ground: Ground, change: Update) -> AnySelect:
    columns = ground.job.c
    for_attempts = (columns.state, columns.owner, columns.heartbeat_ticks)
    returned = (*started_columns(ground.job), columns.attempt_token, *for_attempts)
    started = change.returning(*returned).cte("started")
    told: Select[*tuple[Any, ...]] = select(*_told(started))
    return told.add_cte(insert_attempts(ground, started).cte("begun"))
