"""Settling in a few statements, where one cannot change two tables."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import Connection, Row, Select, Update, and_, case, select, update

from jobs.answer import Settled
from jobs.ending import (
    DECIDED_COLUMNS,
    ENDING_COLUMNS,
    Decided,
    Deciding,
    attempt_values,
    ended_columns,
    ending_row,
    job_state,
    job_values,
)
from jobs.ground import Ground, same_key
from jobs.settlement import Settlement
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows

_Outcome: TypeAlias = dict[UUID, Settled]


def settle_then_end(
    connection: Connection, ground: Ground, settlements: Sequence[Settlement], *, leased: bool
) -> _Outcome:
    """Change the jobs, which tells those that were ours, then their attempts; for SQLite's one writer."""
    rows = {each.reference.token: ending_row(each) for each in settlements}
    database = database_of(connection)
    given, change = ground.built(_change_jobs, database, leased)
    found: Sequence[Row[UUID, str, int]] = connection.execute(
        change, given.parameters(list(rows.values()))
    ).all()
    settled = {token: (state, cancelled) for token, state, cancelled in found}
    if settled:
        decided = [(*rows[token], cancelled, 0) for token, (_, cancelled) in settled.items()]
        after, end = ground.built(_end_attempts, database)
        connection.execute(end, after.parameters(decided))
    return {token: Settled(state) for token, (state, _) in settled.items()}


def settle_locked(
    connection: Connection, ground: Ground, settlements: Sequence[Settlement], *, leased: bool
) -> _Outcome:
    """Lock what is ours, which decides, then change jobs and attempts together.

    Outer joins keep MySQL from beginning with the stored rows, all of which it would lock.
    """
    rows = {each.reference.token: ending_row(each) for each in settlements}
    database = database_of(connection)
    given, locked = ground.built(_lock, database, leased)
    answers = connection.execute(locked, given.parameters(list(rows.values())))
    found: list[Row[UUID, bool, int, int, str]] = [row for row in answers if row.ours]
    decided = [(*rows[token], cancelled, queued) for token, _, cancelled, queued, _ in found]
    if decided:
        after, both = ground.built(_change_both, database)
        connection.execute(both, after.parameters(decided))
    return {token: Settled(state) for token, _, _, _, state in found}


def _change_jobs(ground: Ground, database: Database, leased: bool) -> tuple[Given, Any]:
    given, job = given_rows(database, ENDING_COLUMNS), ground.job
    change = (
        update(job)
        .where(ground.holds(job, given, leased=leased), ground.attempt_is_there(given))
        .values(job_values(ground, given, Deciding(job, given)))
    )
    return given, change.returning(job.c.attempt_token, job.c.state, job.c.cancel_requested)


def _end_attempts(ground: Ground, database: Database, _: None) -> tuple[Given, Update]:
    given = given_rows(database, DECIDED_COLUMNS)
    change = update(ground.attempt).where(ground.has_attempt(given))
    return given, change.values(attempt_values(ground, ended_columns(given, Decided(given))))


def _lock(ground: Ground, database: Database, leased: bool) -> tuple[Given, Select[*tuple[Any, ...]]]:
    given, job, attempt = given_rows(database, ENDING_COLUMNS), ground.job, ground.attempt
    ending = Deciding(job, given)
    ours = given.source.outerjoin(job, ground.holds(job, given, leased=leased))
    # No attempt is locked before its job is ours: whoever has locked the job goes on to the attempt.
    its_attempt = and_(job.c.job_id.is_not(None), ground.has_attempt(given))
    locked: Select[*tuple[Any, ...]] = select(
        given.c["token"],
        and_(job.c.job_id.is_not(None), attempt.c.token.is_not(None)).label("ours"),
        case((ending.cancelled, 1), else_=0),
        case((ending.queued, 1), else_=0),
        job_state(given, ending),
    ).select_from(ours.outerjoin(attempt, its_attempt))
    return given, locked.with_for_update()


def _change_both(ground: Ground, database: Database, _: None) -> tuple[Given, Update]:
    given = given_rows(database, DECIDED_COLUMNS)
    ending = Decided(given)
    job, attempt = ground.job, ground.attempt
    both = given.source.outerjoin(job, same_key(job, given.c)).outerjoin(attempt, ground.has_attempt(given))
    changes = {job.c[name]: value for name, value in job_values(ground, given, ending).items()}
    ends = attempt_values(ground, ended_columns(given, ending))
    changes |= {attempt.c[name]: value for name, value in ends.items()}
    return given, update(both).values(changes)
