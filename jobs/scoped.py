"""What an application may see and do: jobs of one scope at a time."""

from collections.abc import Sequence

from sqlalchemy import Connection

from jobs.answer import CancelAnswer, RetryAnswer
from jobs.control import cancel, retry
from jobs.errors import JobNotFoundError
from jobs.ground import Ground
from jobs.key import JobKey
from jobs.listing import JobCursor, JobFilter, attempts, find, find_record, list_jobs
from jobs.options import JobOptions, checked_limit
from jobs.scope import scope_hash
from jobs.snapshot import AttemptRecord, JobRecord, JobSnapshot
from jobs.table import JOB_ID_UNITS, JobTables
from uow.sql.clock import DatabaseClock, OperationalClock
from uow.text import check_text
from uow.ticks import UtcInstant


class ScopedJobs:
    """The verbs that never reach beyond the scope they are given: another scope's job is not found.

    Each takes an open connection and leaves its transaction to the caller. They raise TextError for a scope
    or an id that no job can have.
    """

    def __init__(
        self, tables: JobTables, *, options: JobOptions | None = None, clock: OperationalClock | None = None
    ) -> None:
        self._ground = Ground(tables, options or JobOptions(), clock or DatabaseClock())

    @property
    def ground(self) -> Ground:
        """The tables, the options and the clock that the verbs stand on."""
        return self._ground

    @property
    def lease_seconds(self) -> float:
        """How long an attempt is its holder's without renewal."""
        return self._ground.options.lease_seconds

    def cancel(self, connection: Connection, scope: str, job_id: str) -> CancelAnswer:
        """Cancel a queued job at once, without using up an attempt; mark a running one; leave a final one."""
        return cancel(connection, self._ground, key_in(scope, job_id))

    def retry(
        self, connection: Connection, scope: str, job_id: str, *, next_run: UtcInstant | None = None
    ) -> RetryAnswer:
        """Queue a failed, cancelled or interrupted job again, due at `next_run` (now by default).

        Clears its progress, error, result and cancellation; its attempts and their number stay.
        """
        return retry(connection, self._ground, key_in(scope, job_id), next_run)

    def get(self, connection: Connection, scope: str, job_id: str) -> JobSnapshot:
        """The job as it stands. Raises JobNotFoundError, also when another scope has such a job."""
        key = key_in(scope, job_id)
        found = find(connection, self._ground, key)
        if found is None:
            raise JobNotFoundError(key)
        return found

    def find(self, connection: Connection, scope: str, job_id: str) -> JobSnapshot | None:
        """The job as it stands, or None."""
        return find(connection, self._ground, key_in(scope, job_id))

    def find_record(self, connection: Connection, scope: str, job_id: str) -> JobRecord | None:
        """The job as it stands, or None, without reading its arguments; for looking often."""
        return find_record(connection, self._ground, key_in(scope, job_id))

    def list(
        self,
        connection: Connection,
        scope: str,
        filter: JobFilter | None = None,  # noqa: A002 - the word of the callers
        cursor: JobCursor | None = None,
        limit: int = 100,
    ) -> Sequence[JobRecord]:
        """Jobs of the scope, the latest first, at most `limit` (1 to 1000), without their arguments.

        Give `JobCursor.after` the last job of a page to get the next one. Jobs submitted while one pages do
        not appear.
        """
        only = filter or JobFilter()
        return list_jobs(
            connection, self._ground, scope_hash(scope), only, after=cursor, limit=checked_limit(limit)
        )

    def attempts(self, connection: Connection, scope: str, job_id: str) -> Sequence[AttemptRecord]:
        """The attempts of a job, the first one first; none when the scope has no such job."""
        return attempts(connection, self._ground, key_in(scope, job_id))


def key_in(scope: str, job_id: str) -> JobKey:
    """The key of a job. Raises TextError for what no job can have."""
    return JobKey(scope_hash(scope), check_text("job_id", job_id, units=JOB_ID_UNITS, blank=False))
