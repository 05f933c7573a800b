"""Deleting final jobs after their retention, with their attempts."""

from sqlalchemy import Connection, Executable, select

from jobs.ground import KEY_COLUMNS, Ground, key_rows, same_key
from jobs.key import JobKey
from jobs.state import JobState
from jobs.table import FINAL_INDEX
from uow.sql.delete_given import delete_given
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows
from uow.sql.index_hint import read_by
from uow.sql.planner import at_most, unforeseen


def cleanup(
    connection: Connection, ground: Ground, state: JobState, older_than_seconds: float, limit: int
) -> int:
    """See JobStore.cleanup."""
    columns = ground.job.c
    database = database_of(connection)
    too_old = ground.clock.ticks_after(-older_than_seconds)
    expired = (
        read_by(select(columns.scope_hash, columns.job_id), ground.job, FINAL_INDEX)
        .where(columns.state == state.value, columns.completed_ticks < unforeseen(too_old))
        .order_by(columns.completed_ticks)
        .limit(at_most(limit))
        .with_for_update(skip_locked=database.skip_locked)
    )
    keys = [JobKey(row[0], row[1]) for row in connection.execute(expired)]
    if not keys:
        return 0
    # Locked by the choice, so none of them is retried meanwhile: nothing to check again.
    given, attempts, jobs = ground.built(_deletions, database)
    connection.execute(attempts, given.parameters(key_rows(keys)))
    connection.execute(jobs, given.parameters(key_rows(keys)))
    return len(keys)


def _deletions(ground: Ground, database: Database, _: None) -> tuple[Given, Executable, Executable]:
    given = given_rows(database, KEY_COLUMNS)
    return (
        given,
        delete_given(given, ground.attempt, same_key(ground.attempt, given.c)),
        delete_given(given, ground.job, same_key(ground.job, given.c)),
    )
