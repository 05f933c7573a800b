"""Starting jobs: a fresh token, one attempt more and its row, for as many as are asked for at once."""

from collections.abc import Collection

from sqlalchemy import Connection

from jobs.answer import Fenced, StartReport
from jobs.ground import Ground
from jobs.key import JobKey
from jobs.snapshot import StartedJob
from jobs.start_locked import start_due_locked, start_one_locked
from jobs.start_returning import start_due, start_one
from jobs.starting import Starter, report_of
from uow.sql.dialect import database_of


def start_many(
    connection: Connection, ground: Ground, queues: Collection[str], limit: int, starter: Starter
) -> StartReport:
    """See JobStore.start_many."""
    start = start_due if database_of(connection).update_returning else start_due_locked
    return report_of(start(connection, ground, queues, limit, starter))


def try_start(connection: Connection, ground: Ground, key: JobKey, starter: Starter) -> StartedJob | Fenced:
    """See JobStore.try_start."""
    start = start_one if database_of(connection).update_returning else start_one_locked
    rows = start(connection, ground, key, starter)
    return StartedJob.of_row(rows[0]) if rows else Fenced.FENCED
