"""What every verb of the store stands on."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, FromClause, Integer, Table, and_, select
from sqlalchemy.types import TypeEngine

from jobs.key import AttemptReference, JobKey
from jobs.options import JobOptions
from jobs.state import AttemptState, JobState
from jobs.table import JOB_ID_UNITS, JobTables
from uow.sql.clock import OperationalClock
from uow.sql.dialect import Database
from uow.sql.given import Given
from uow.sql.planner import unestimated, unforeseen
from uow.sql.types import ExactText, ExactUuid, digest_type

T = TypeVar("T")

KEY_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "scope_hash": digest_type(),
    "job_id": ExactText(JOB_ID_UNITS),
}
REFERENCE_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    **KEY_COLUMNS,
    "ordinal": Integer(),
    "token": ExactUuid(),
}


@dataclass(frozen=True, slots=True)
class Ground:
    """The tables, the options and the clock of one store, and the statements built on them."""

    tables: JobTables
    options: JobOptions
    clock: OperationalClock
    _built: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def job(self) -> Table:
        """The table of jobs."""
        return self.tables.job

    @property
    def attempt(self) -> Table:
        """The table of attempts."""
        return self.tables.attempt

    def built(
        self, build: Callable[["Ground", Database, Any], T], database: Database, variant: Hashable = None
    ) -> T:
        """What `build(ground, database, variant)` makes, made once: building a statement can take longer
        than executing it.
        """
        name = (build, database.name, variant)
        if name not in self._built:
            self._built[name] = build(self, database, variant)
        made: T = self._built[name]
        return made

    def holds(self, job: FromClause, given: Given, *, leased: bool = True) -> ColumnElement[bool]:
        """Whether a row of `job` is running the attempt of a row of `given` under an unexpired lease.

        At exactly the expiry it is held no longer. Without `leased` that does not matter.
        """
        columns = job.c
        running = [
            columns.attempt_token == given.c["token"],
            columns.attempt_count == given.c["ordinal"],
            columns.state == JobState.RUNNING.value,
        ]
        if leased:
            running.append(columns.lease_expires_ticks > unforeseen(self.clock.now_ticks()))
        return and_(same_key(job, given.c), unestimated(and_(*running)))

    def attempt_is_there(self, given: Given) -> ColumnElement[bool]:
        """Whether there is the running attempt of a row of `given`: looked up, never joined."""
        looked_up = select(self.attempt.c.token).where(self.has_attempt(given)).correlate(given.source)
        return looked_up.scalar_subquery() == given.c["token"]

    def has_attempt(self, given: Given) -> ColumnElement[bool]:
        """Whether a row of the table of attempts is the running one of a row of `given`."""
        columns = self.attempt.c
        return and_(
            same_key(self.attempt, given.c),
            columns.ordinal == given.c["ordinal"],
            columns.token == given.c["token"],
            columns.state == AttemptState.RUNNING.value,
        )


def same_key(table: FromClause, columns: Any) -> ColumnElement[bool]:
    """Whether `table` and the columns of something else name one job."""
    return and_(table.c.scope_hash == columns["scope_hash"], table.c.job_id == columns["job_id"])


def key_rows(keys: Iterable[JobKey]) -> list[tuple[Any, ...]]:
    """The values of KEY_COLUMNS."""
    return [(key.scope_hash, key.job_id) for key in keys]


def reference_rows(references: Iterable[AttemptReference]) -> list[tuple[Any, ...]]:
    """The values of REFERENCE_COLUMNS."""
    return [(each.scope_hash, each.job_id, each.ordinal, each.token) for each in references]
