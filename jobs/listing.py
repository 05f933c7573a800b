"""Looking at jobs of one scope."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from jobs.ground import Ground
from jobs.key import AttemptReference, JobKey
from jobs.snapshot import (
    AttemptRecord,
    JobRecord,
    JobSnapshot,
    record_columns,
    record_of,
    snapshot_columns,
    snapshot_of,
)
from jobs.state import AttemptState, JobState
from jobs.table import is_listed
from uow.ticks import UtcInstant


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; everything given must hold.

    states: any of these; empty for all. created_from (inclusive) and created_before (exclusive).
    """

    states: frozenset[JobState] = frozenset()
    queue: str | None = None
    handler: str | None = None
    created_from: UtcInstant | None = None
    created_before: UtcInstant | None = None


@dataclass(frozen=True, slots=True)
class JobCursor:
    """The place of one job in the list, after which the next page begins."""

    created: UtcInstant
    job_id: str

    @classmethod
    def after(cls, job: JobRecord) -> "JobCursor":
        """The place of `job`."""
        return cls(job.created, job.job_id)


def find(connection: Connection, ground: Ground, key: JobKey) -> JobSnapshot | None:
    """See JobStore.find."""
    query = select(*snapshot_columns(ground.tables)).where(_in_scope(ground, key))
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else snapshot_of(row)


def find_record(connection: Connection, ground: Ground, key: JobKey) -> JobRecord | None:
    """See JobStore.find_record."""
    query = select(*record_columns(ground.tables)).where(_in_scope(ground, key))
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else record_of(row)


def list_jobs(
    connection: Connection,
    ground: Ground,
    scope_hash: bytes,
    only: JobFilter,
    *,
    after: JobCursor | None,
    limit: int,
) -> list[JobRecord]:
    """See JobStore.list."""
    columns = ground.job.c
    query = (
        select(*record_columns(ground.tables))
        .where(columns.scope_hash == scope_hash, is_listed(ground.job), *_matching(ground, only))
        .order_by(columns.created_ticks.desc(), columns.job_id.desc())
        .limit(limit)
    )
    if after is not None:
        # Not a comparison of row values: MariaDB does not search an index with one.
        query = query.where(
            columns.created_ticks <= after.created,
            or_(columns.created_ticks < after.created, columns.job_id < after.job_id),
        )
    return [record_of(row) for row in connection.execute(query).mappings()]


def attempts(connection: Connection, ground: Ground, key: JobKey) -> Sequence[AttemptRecord]:
    """See JobStore.attempts."""
    columns = ground.attempt.c
    query = (
        select(ground.attempt)
        .where(columns.scope_hash == key.scope_hash, columns.job_id == key.job_id)
        .order_by(columns.ordinal)
    )
    return [AttemptRecord.of_row(row) for row in connection.execute(query).mappings()]


def find_attempt_state(
    connection: Connection, ground: Ground, reference: AttemptReference
) -> AttemptState | None:
    """See JobStore.find_attempt_state."""
    columns = ground.attempt.c
    query = select(columns.state).where(
        columns.scope_hash == reference.scope_hash,
        columns.job_id == reference.job_id,
        columns.ordinal == reference.ordinal,
        columns.token == reference.token,
    )
    state = connection.execute(query.with_for_update()).scalar_one_or_none()
    return None if state is None else AttemptState(state)


def _in_scope(ground: Ground, key: JobKey) -> ColumnElement[bool]:
    return and_(ground.job.c.scope_hash == key.scope_hash, ground.job.c.job_id == key.job_id)


def _matching(ground: Ground, only: JobFilter) -> list[ColumnElement[bool]]:
    columns = ground.job.c
    conditions: list[ColumnElement[bool]] = []
    if only.states:
        conditions.append(columns.state.in_(sorted(state.value for state in only.states)))
    if only.queue is not None:
        conditions.append(columns.queue == only.queue)
    if only.handler is not None:
        conditions.append(columns.handler == only.handler)
    if only.created_from is not None:
        conditions.append(columns.created_ticks >= only.created_from)
    if only.created_before is not None:
        conditions.append(columns.created_ticks < only.created_before)
    return conditions
