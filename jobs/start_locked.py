"""Starting where an UPDATE does not say which rows it changed: lock, change, and add the attempts."""

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Update,
    and_,
    bindparam,
    case,
    literal,
    select,
    update,
)
from sqlalchemy.types import TypeEngine

from jobs.due import AnySelect, find_lanes, in_lane, in_lanes, is_due, numbered_lane, numbered_lanes
from jobs.ground import KEY_COLUMNS, Ground, same_key
from jobs.key import JobKey
from jobs.snapshot import started_columns
from jobs.start_returning import insert_given_attempts
from jobs.starting import Starter, is_known, put_off_until, started_values
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows
from uow.sql.types import ExactUuid

Rows: TypeAlias = Sequence[Sequence[Any]]

_TOKEN_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {**KEY_COLUMNS, "token": ExactUuid()}


def start_due_locked(
    connection: Connection, ground: Ground, queues: Collection[str], limit: int, starter: Starter
) -> Rows:
    """Start the first due jobs of these queues."""
    lanes = find_lanes(connection, ground, queues)
    if not lanes:
        return []
    choice = ground.built(_lock_lanes, database_of(connection), (len(lanes), starter.picky))
    parameters = numbered_lanes(lanes, limit) | starter.parameters
    return _start(connection, ground, starter, connection.execute(choice, parameters).all())


def start_one_locked(connection: Connection, ground: Ground, key: JobKey, starter: Starter) -> Rows:
    """Start this job if it is due."""
    choice = ground.built(_lock_key, database_of(connection))
    parameters = {"key_scope_hash": key.scope_hash, "key_job_id": key.job_id}
    return _start(connection, ground, starter, connection.execute(choice, parameters).all())


def _start(connection: Connection, ground: Ground, starter: Starter, rows: Rows) -> Rows:
    """Start the jobs of these rows, which are locked, and put off those that are not known."""
    database = database_of(connection)
    known = [row for row in rows if row[-1]]
    unknown = [row for row in rows if not row[-1]]
    tokens = [uuid4() for _ in known]
    if known:
        given, change = ground.built(_change, database)
        given_tokens = [(*row[:2], token) for row, token in zip(known, tokens, strict=True)]
        connection.execute(change, given.parameters(given_tokens) | starter.parameters)
        keys, attempts = ground.built(insert_given_attempts, database)
        connection.execute(attempts, keys.parameters([row[:2] for row in known]))
    if unknown:
        given, put_off = ground.built(_put_off, database)
        connection.execute(put_off, given.parameters([row[:2] for row in unknown]) | starter.parameters)
    started = [(*row[:-1], token) for row, token in zip(known, tokens, strict=True)]
    return [*started, *((*row[:-1], None) for row in unknown)]


def _lock_lanes(ground: Ground, database: Database, variant: tuple[int, bool]) -> AnySelect:
    count, picky = variant
    job = ground.job.alias("due")
    columns = _columns(ground, job, picky=picky)
    arms = [
        (job, in_lane(ground, job, columns, *numbered_lane(number)).with_for_update(skip_locked=True))
        for number in range(count)
    ]
    return in_lanes(arms)


def _lock_key(ground: Ground, database: Database, _: None) -> AnySelect:
    columns = ground.job.c
    key = and_(
        columns.scope_hash == bindparam("key_scope_hash", type_=columns.scope_hash.type),
        columns.job_id == bindparam("key_job_id", type_=columns.job_id.type),
    )
    choice: AnySelect = select(*_columns(ground, ground.job, picky=False))
    return choice.where(key, is_due(ground, ground.job)).with_for_update()


def _columns(ground: Ground, job: FromClause, *, picky: bool) -> list[ColumnElement[Any]]:
    """What a started job is made of, as it will be, and whether it is known."""
    begun = (job.c.attempt_count + 1).label("attempt_count")
    known = case((is_known(job), 1), else_=0) if picky else literal(1)
    made_of = [begun if column.name == "attempt_count" else column for column in started_columns(job)]
    return [*made_of, known.label("known")]


def _change(ground: Ground, database: Database, _: None) -> tuple[Given, Update]:
    given = given_rows(database, _TOKEN_COLUMNS)
    return given, _changed(ground, given, started_values(ground, given.c["token"], picky=False))


def _put_off(ground: Ground, database: Database, _: None) -> tuple[Given, Update]:
    given = given_rows(database, KEY_COLUMNS)
    return given, _changed(ground, given, {"next_run_ticks": put_off_until(ground)})


def _changed(ground: Ground, given: Given, values: dict[str, Any]) -> Update:
    # An outer join, so that MySQL looks up, and locks, these jobs alone.
    joined = given.source.outerjoin(ground.job, same_key(ground.job, given.c))
    return update(joined).values({ground.job.c[name]: value for name, value in values.items()})
