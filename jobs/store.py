"""The store of jobs: every change is one conditional statement that says what it did not change."""

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection

from jobs.answer import (
    ExecutionStatus,
    ExpiredAttempt,
    Fenced,
    JobCounts,
    ProgressAnswer,
    Recovered,
    Settled,
    StartReport,
    Submitted,
)
from jobs.cleanup import cleanup
from jobs.counts import counts, running_counts
from jobs.due import get_due
from jobs.errors import AttemptMissingError
from jobs.key import AttemptReference, JobKey
from jobs.lease import execution_status_many, renew
from jobs.listing import find_attempt_state
from jobs.options import checked_limit
from jobs.progress import progress
from jobs.recover import recover, recover_expired
from jobs.scoped import ScopedJobs
from jobs.settle import settle_many
from jobs.settlement import Settlement
from jobs.snapshot import JobRecord, StartedJob
from jobs.start import start_many, try_start
from jobs.starting import Handlers, Starter
from jobs.state import FINAL, AttemptState, JobState
from jobs.submission import JobSubmission
from jobs.submit import Submissions


def _always(attempt: ExpiredAttempt) -> bool:
    return True


def _at_once(attempt: ExpiredAttempt) -> float:
    return 0.0


class JobStore(ScopedJobs):
    """The verbs on stored jobs. Each takes an open connection and leaves its transaction to the caller.

    Run a verb in a short transaction of its own, as `run_step(engine, lambda connection: store.verb(...))`
    gives one. Every verb takes a constant number of statements for any number of jobs up to 1000. An attempt
    is ours while the job carries its token and the lease has not expired, by the database's clock; at
    exactly the expiry it is lost. Verbs with `scope` see that scope alone; the others are for the trusted
    executor. One store serves any number of threads and tasks.
    """

    def submit_many(
        self, connection: Connection, submissions: Sequence[JobSubmission]
    ) -> Sequence[Submitted]:
        """The stored job of each submission, in their order; one statement when all are new.

        A job whose identity is stored with an equal request comes back as it is; so does one that another
        transaction is just inserting, once that has committed. None of this aborts the transaction. Raises
        JobIdentityConflictError for an identity with another request, within `submissions` or stored; the
        transaction must then be rolled back, since some of the jobs may be added already.
        """
        return Submissions(connection, self._ground).store(submissions)

    def find_submitted(
        self, connection: Connection, submissions: Sequence[JobSubmission]
    ) -> Sequence[Submitted] | None:
        """The stored job of each submission; None when one of them is not stored.

        Raises JobIdentityConflictError.
        """
        return Submissions(connection, self._ground).find(submissions)

    def get_due(
        self, connection: Connection, queues: Collection[str], limit: int = 100
    ) -> Sequence[JobRecord]:
        """Jobs that may start now, as `start_many` would take them; it grants nothing."""
        return get_due(connection, self._ground, queues, checked_limit(limit))

    def try_start(self, connection: Connection, key: JobKey, *, owner: str) -> StartedJob | Fenced:
        """Start one job: queued, not cancelled, due, with attempts left; FENCED when it is not all of this.

        It gets a fresh token, one attempt more with its row, and a lease of `lease_seconds` for `owner`
        (a text for people, at most 200 UTF-16 units). Of two who try, one succeeds.
        """
        return try_start(connection, self._ground, key, Starter(owner=owner))

    def start_many(
        self,
        connection: Connection,
        queues: Collection[str],
        *,
        limit: int,
        owner: str,
        handlers: Handlers | None = None,
        put_off_seconds: float = 30.0,
    ) -> StartReport:
        """Start up to `limit` (1 to 1000) due jobs, the highest priority first, then the longest due.

        Jobs that others are starting are left out, so that two calls share nothing and neither waits, except
        on SQLite, which has one writer at a time. With `handlers` (names and versions) a due job of another
        handler is left queued and put off by `put_off_seconds`, without using up an attempt. At one moment
        at most 16 pairs of queue and priority are looked into; claim again until nothing is looked at.
        """
        starter = Starter(owner=owner, handlers=handlers, put_off_seconds=put_off_seconds)
        return start_many(connection, self._ground, queues, checked_limit(limit), starter)

    def progress(
        self, connection: Connection, reference: AttemptReference, percent: int, message: str | None = None
    ) -> ProgressAnswer:
        """Record how far an attempt is: 0 to 100, never lower than before; 100 does not end it.

        `message` is made fit to be stored and cut to 1000 UTF-16 units. Raises ValueError for another
        percentage, and AttemptMissingError, after which the transaction must be rolled back.
        """
        return progress(connection, self._ground, reference, percent, message)

    def renew(
        self, connection: Connection, references: Collection[AttemptReference]
    ) -> dict[AttemptReference, ExecutionStatus]:
        """Prolong the leases of all that are still ours to `lease_seconds` from now; the status of each.

        It waits for nobody: a row that is locked at this moment is not prolonged, only looked at, so renew
        several times within a lease.
        """
        return renew(connection, self._ground, references)

    def execution_status(self, connection: Connection, reference: AttemptReference) -> ExecutionStatus:
        """Whether an attempt should go on; never reads the arguments."""
        return execution_status_many(connection, self._ground, [reference])[reference]

    def execution_status_many(
        self, connection: Connection, references: Collection[AttemptReference]
    ) -> dict[AttemptReference, ExecutionStatus]:
        """The same for many, in one query."""
        return execution_status_many(connection, self._ground, references)

    def settle_many(self, connection: Connection, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """End attempts and move their jobs on; what became of each, in their order.

        A cancellation that committed first makes the job cancelled, without a result, whatever the
        settlement says; one that comes later changes nothing. Those that are ours no longer are left as
        they are. Raises ValueError when an attempt is named twice.
        """
        return settle_many(connection, self._ground, settlements)

    def succeed(
        self, connection: Connection, reference: AttemptReference, result_reference: str | None = None
    ) -> Settled:
        """End one attempt with success: SUCCEEDED, CANCELLED or FENCED. Raises AttemptMissingError."""
        return self._settle(connection, Settlement.succeed(reference, result_reference=result_reference))

    def fail(
        self,
        connection: Connection,
        reference: AttemptReference,
        *,
        error_code: str,
        error_detail: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> Settled:
        """End one attempt as failed: FAILED, QUEUED (a retry follows), CANCELLED or FENCED.

        Raises AttemptMissingError.
        """
        failure = Settlement.fail(
            reference,
            error_code=error_code,
            error_detail=error_detail,
            retry_after_seconds=retry_after_seconds,
        )
        return self._settle(connection, failure)

    def interrupt(
        self,
        connection: Connection,
        reference: AttemptReference,
        *,
        error_code: str = "interrupted",
        error_detail: str | None = None,
    ) -> Settled:
        """End one attempt from outside: INTERRUPTED, CANCELLED or FENCED. Raises AttemptMissingError."""
        return self._settle(
            connection,
            Settlement.interrupt(reference, error_code=error_code, error_detail=error_detail),
        )

    def recover(
        self,
        connection: Connection,
        reference: AttemptReference,
        *,
        requeue: bool,
        counts: bool = True,
    ) -> Settled:
        """End a running attempt as interrupted, whether its lease has expired or not, by its token alone.

        With `requeue` its job is queued again in the same statement, if no cancellation is asked for and
        attempts are left. A planned shutdown gives `counts=False`: then the attempt used none up. Raises
        AttemptMissingError.
        """
        settled = recover(connection, self._ground, reference, requeue=requeue, counts=counts)
        return _unless_missing(reference, settled)

    def recover_expired(
        self,
        connection: Connection,
        *,
        limit: int = 100,
        handlers: Handlers | None = None,
        abandoned_seconds: float = 86_400.0,
        requeue: Callable[[ExpiredAttempt], bool] = _always,
        delay_seconds: Callable[[ExpiredAttempt], float] = _at_once,
    ) -> Sequence[Recovered]:
        """Recover up to `limit` (1 to 1000) attempts whose lease has expired, the longest expired first.

        With `handlers` (names and versions) those of others are left to who has them, and do not count for
        `limit`, unless a cancellation is asked for, no attempt is left, or their lease expired more than
        `abandoned_seconds` ago: then their jobs end, and an operator may retry them. `requeue` says for each
        of the known whether its handler may run again, and `delay_seconds` when; these attempts count. Call
        it again while it returns `limit`. Attempts that someone has locked at this moment are left for the
        next time, and so are those whose row is gone: ATTEMPT_MISSING is told, once in each lease. Raises
        ValueError for `abandoned_seconds` that are no time.
        """
        return recover_expired(
            connection,
            self._ground,
            limit=checked_limit(limit),
            handlers=handlers,
            abandoned_seconds=abandoned_seconds,
            requeue=requeue,
            delay_seconds=delay_seconds,
        )

    def find_attempt_state(self, connection: Connection, reference: AttemptReference) -> AttemptState | None:
        """How an attempt stands, by its own row; None when there is none with this token.

        For its holder after a commit of unknown outcome: waits for a transaction that is just ending it.
        """
        return find_attempt_state(connection, self._ground, reference)

    def counts(self, connection: Connection) -> JobCounts:
        """How many jobs wait, run and ended without success; four statements, succeeded ones are not read."""
        return counts(connection, self._ground)

    def running(self, connection: Connection) -> dict[str, int]:
        """How many jobs run in each queue, at any executor."""
        return running_counts(connection, self._ground)

    def cleanup(
        self,
        connection: Connection,
        state: JobState,
        *,
        older_than_seconds: float | None = None,
        limit: int = 1000,
    ) -> int:
        """Delete up to `limit` (1 to 1000) jobs that ended so long ago, with their attempts; how many.

        Older than the option of that state when nothing else is given; nothing at all when that is None.
        Call it again while it returns `limit`. Raises ValueError for a state that is not final.
        """
        if state not in FINAL:
            raise ValueError(f"only final jobs are deleted, not {state}")
        age = (
            self._ground.options.retention_seconds(state)
            if older_than_seconds is None
            else older_than_seconds
        )
        return 0 if age is None else cleanup(connection, self._ground, state, age, checked_limit(limit))

    def _settle(self, connection: Connection, settlement: Settlement) -> Settled:
        (settled,) = settle_many(connection, self._ground, [settlement])
        return _unless_missing(settlement.reference, settled)


def _unless_missing(reference: AttemptReference, settled: Settled) -> Settled:
    if settled is Settled.ATTEMPT_MISSING:
        raise AttemptMissingError(reference)
    return settled
