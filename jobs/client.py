"""Jobs for applications: submit beside the caller's work, stage within it, look, cancel and retry."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from jobs.answer import CancelAnswer, JobCounts, RetryAnswer, Submitted
from jobs.errors import JobNotFoundError, JobSubmissionError
from jobs.key import JobKey
from jobs.listing import JobCursor, JobFilter
from jobs.own_session import OwnSessions
from jobs.scope import scope_hash
from jobs.snapshot import AttemptRecord, JobRecord, JobSnapshot
from jobs.state import FINAL
from jobs.store import JobStore
from jobs.submission import JobSubmission
from uow.contracts.structure import kind_of
from uow.participant import Staged
from uow.sql.fault import Fault, fault_of
from uow.ticks import UtcInstant
from uow.unit import SelfManagedUnitOfWork

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


class Jobs:
    """What an application does with jobs. Each call but `stage` runs in a session and commit of its own.

    sessions: the application's sessionmaker; it must make a new session each time. on_committed: told after
    each commit that queued jobs, to wake executors; must not block. On SQLite, which has one writer at a
    time, do not await these inside an open unit of work that has written: stage there.
    """

    def __init__(
        self,
        sessions: Callable[[], AsyncSession],
        store: JobStore,
        *,
        on_committed: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._own = OwnSessions(sessions, store.ground.job)
        self._on_committed = on_committed

    async def submit(self, submission: JobSubmission, *, beside: AsyncSession | None = None) -> JobSnapshot:
        """The stored job, whether this call has stored it or an equal request before; safe to repeat.

        Independent: committed whatever becomes of the caller's transaction, and nothing of the caller's
        session comes along; name that session as `beside` to have it refused should the sessionmaker give
        it. Raises JobIdentityConflictError, UnfitSessionError.
        """
        return (await self.submit_many([submission], beside=beside))[0].snapshot

    async def submit_many(
        self, submissions: Sequence[JobSubmission], *, beside: AsyncSession | None = None
    ) -> Sequence[Submitted]:
        """The same for many, in their order: all are stored or none."""
        for each in submissions:
            if not isinstance(each, JobSubmission):
                rule = f"must be a JobSubmission, as JobSubmission.create(...) makes one, not {kind_of(each)}"
                raise JobSubmissionError("submission", rule)
        try:
            submitted = await self._own.run(
                lambda connection: self._store.submit_many(connection, submissions), beside=beside
            )
        except DBAPIError as error:
            if fault_of(error) is not Fault.UNIQUE_VIOLATION:
                raise
            return await self._winners(submissions, error)
        if any(each.created for each in submitted):
            self._wake()
        return submitted

    def stage(self, unit: SelfManagedUnitOfWork, submission: JobSubmission) -> Staged:
        """Add a job to the commit of an open unit of work. Raises JobIdentityConflictError.

        The unit must have been built with a JobParticipant. A conflict with a stored job is found when the
        unit commits; either way the whole unit rolls back.
        """
        return unit.stage(submission)

    def stage_many(
        self, unit: SelfManagedUnitOfWork, submissions: Sequence[JobSubmission]
    ) -> Sequence[Staged]:
        """The same for many; the unit writes all it has staged in one statement."""
        return [unit.stage(submission) for submission in submissions]

    async def cancel(self, scope: str, job_id: str) -> CancelAnswer:
        """Cancel a queued job, mark a running one, leave a final one."""
        return await self._own.run(lambda connection: self._store.cancel(connection, scope, job_id))

    async def retry(
        self, scope: str, job_id: str, *, next_run: datetime | UtcInstant | None = None
    ) -> RetryAnswer:
        """Queue a failed, cancelled or interrupted job again, due at `next_run` (aware; now by default)."""
        due = UtcInstant.from_datetime(next_run) if isinstance(next_run, datetime) else next_run
        answer = await self._own.run(
            lambda connection: self._store.retry(connection, scope, job_id, next_run=due)
        )
        if answer is RetryAnswer.QUEUED:
            self._wake()
        return answer

    async def get(self, scope: str, job_id: str) -> JobSnapshot:
        """The job as it stands. Raises JobNotFoundError, also when another scope has such a job."""
        return await self._look(lambda connection: self._store.get(connection, scope, job_id))

    async def find(self, scope: str, job_id: str) -> JobSnapshot | None:
        """The job as it stands, or None."""
        return await self._look(lambda connection: self._store.find(connection, scope, job_id))

    async def wait(self, scope: str, job_id: str, *, poll_seconds: float = 0.5) -> JobRecord:
        """The job once it is final, by a look every `poll_seconds`; limit it with `asyncio.timeout`.

        Raises JobNotFoundError, also when it is deleted meanwhile.
        """
        while (job := await self.find_record(scope, job_id)) is None or job.state not in FINAL:
            if job is None:
                raise JobNotFoundError(JobKey(scope_hash(scope), job_id))
            await asyncio.sleep(poll_seconds)
        return job

    async def find_record(self, scope: str, job_id: str) -> JobRecord | None:
        """The job as it stands, or None, without reading its arguments; for looking often."""
        return await self._look(lambda connection: self._store.find_record(connection, scope, job_id))

    async def list(
        self,
        scope: str,
        filter: JobFilter | None = None,  # noqa: A002 - the word of the callers
        *,
        cursor: JobCursor | None = None,
        limit: int = 100,
    ) -> Sequence[JobRecord]:
        """Jobs of the scope, the latest first; `JobCursor.after` the last one leads to the next page."""
        return await self._look(lambda connection: self._store.list(connection, scope, filter, cursor, limit))

    async def attempts(self, scope: str, job_id: str) -> Sequence[AttemptRecord]:
        """The attempts of a job, the first one first."""
        return await self._look(lambda connection: self._store.attempts(connection, scope, job_id))

    async def counts(self) -> JobCounts:
        """How many jobs wait, run and ended without success, in all scopes."""
        return await self._look(self._store.counts)

    async def _look(self, step: Callable[[Connection], T]) -> T:
        return await self._own.run(step, reads_only=True)

    async def _winners(self, submissions: Sequence[JobSubmission], error: DBAPIError) -> Sequence[Submitted]:
        """After a lost race: what the winner stored, read in a new session; the error when there is none."""
        found = await self._own.run(lambda connection: self._store.find_submitted(connection, submissions))
        if found is None:
            raise error
        return found

    def _wake(self) -> None:
        if self._on_committed is None:
            return
        try:
            self._on_committed()
        except Exception:  # noqa: BLE001 - a hint; the jobs are stored
            _log.warning("jobs are stored; waking executors failed", exc_info=True)
