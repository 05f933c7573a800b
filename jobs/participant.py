"""Jobs inside someone else's commit: staged when asked for, written in one statement before COMMIT."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection

from jobs.errors import JobIdentityConflictError
from jobs.store import JobStore
from jobs.submission import JobSubmission
from jobs.submit import Submissions
from uow.participant import Staged


class JobParticipant:
    """Lets a unit of work stage jobs; give it to the unit as one of its participants.

    `unit.stage(submission)` adds it to the unit's commit. Staging an equal request again changes nothing;
    so does one that is stored already, and the transaction goes on. Another request under the identity of a
    staged or stored job raises JobIdentityConflictError, and the whole unit rolls back, its events included.
    on_committed: told after each commit that stored jobs, to wake executors; must not block.
    """

    def __init__(self, store: JobStore, *, on_committed: Callable[[], None] | None = None) -> None:
        self._store = store
        self._on_committed = on_committed

    def accepts(self, item: object) -> bool:
        """Whether `item` is a JobSubmission."""
        return isinstance(item, JobSubmission)

    def stage(self, item: Any, **options: Any) -> Staged:
        """Keep the submission, which is complete and immutable."""
        if options:
            given = ", ".join(sorted(options))
            raise TypeError(f"a JobSubmission takes no options, not {given}; use unit.stage(submission)")
        return Staged(key=item.key, content=item.content, value=item)

    def conflict(self, staged: Staged, earlier: Staged) -> JobIdentityConflictError:
        """The error for one job identity staged twice in one unit with different requests."""
        submission: JobSubmission = staged.value
        return JobIdentityConflictError(submission.key, submission.differs_from(earlier.value))

    def write(self, connection: Connection, staged: Sequence[Staged]) -> str | None:
        """Store all that are new; one statement when all are. Raises JobIdentityConflictError."""
        submissions = Submissions(connection, self._store.ground)
        submissions.store([each.value for each in staged])
        return submissions.transaction_id

    def committed(self, staged: Sequence[Staged]) -> None:
        """Wake the executors."""
        if self._on_committed is not None:
            self._on_committed()
