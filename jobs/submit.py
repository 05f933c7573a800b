"""Storing submissions: one statement when all are new, and what is stored already comes back."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    String,
    bindparam,
    cast,
    func,
    insert,
    literal,
    select,
    true,
)
from sqlalchemy.exc import IntegrityError

from jobs.answer import Submitted
from jobs.errors import JobIdentityConflictError, JobVanishedError
from jobs.ground import KEY_COLUMNS, Ground, key_rows, same_key
from jobs.key import JobKey
from jobs.snapshot import JobSnapshot, snapshot_columns, snapshot_of
from jobs.state import JobState
from jobs.submission import JobSubmission
from jobs.table import NAME_UNITS
from uow.sql.clock import read_ticks
from uow.sql.dialect import Database, UpsertStyle, database_of
from uow.sql.fault import Fault, fault_of
from uow.sql.given import Given, given_rows
from uow.sql.types import ExactLongText, ExactText, InstantTicks
from uow.sql.upsert import on_conflict_insert
from uow.ticks import UtcInstant

_ROUNDS: Final = 5
_PORTION_ROWS: Final = 1000
_PORTION_UNITS: Final = 2 * 1_048_576
"""MariaDB refuses a statement longer than its `max_allowed_packet`, 16 MiB by default; JSON within JSON
takes up to twice its length."""

_COLUMNS: Final = {
    **KEY_COLUMNS,
    "handler": ExactText(NAME_UNITS),
    "handler_version": Integer(),
    "queue": ExactText(NAME_UNITS),
    "priority": Integer(),
    "max_attempts": Integer(),
    "arguments": ExactLongText(),
    "initial_not_before_ticks": BigInteger(),
    "correlation_id": ExactText(200),
    "traceparent": ExactText(128),
    "tracestate": ExactText(512),
}

Found = dict[JobKey, tuple[JobSnapshot, bool]]


class Submissions:
    """Stores submissions and tells, once it is done, the transaction's id where inserting tells it."""

    def __init__(self, connection: Connection, ground: Ground) -> None:
        self._connection = connection
        self._ground = ground
        self._database = database_of(connection)
        self.transaction_id: str | None = None

    def store(self, submissions: Sequence[JobSubmission]) -> list[Submitted]:
        """See JobStore.submit_many."""
        waiting = _by_key(submissions)
        found: Found = {}
        for _ in range(_ROUNDS):
            for portion in _portions(list(waiting.values())):
                for created in self._insert(portion):
                    found[created.key] = created, True
                    del waiting[created.key]
            if waiting:
                for earlier in self._stored(list(waiting)):
                    _check_same(waiting.pop(earlier.key), earlier)
                    found[earlier.key] = earlier, False
            if not waiting:
                return _answers(submissions, found)
        raise JobVanishedError(f"{len(waiting)} jobs could neither be added nor found, {_ROUNDS} times")

    def find(self, submissions: Sequence[JobSubmission]) -> list[Submitted] | None:
        """See JobStore.find_submitted."""
        waiting = _by_key(submissions)
        found: Found = {}
        for earlier in self._stored(list(waiting)):
            _check_same(waiting.pop(earlier.key), earlier)
            found[earlier.key] = earlier, False
        return None if waiting else _answers(submissions, found)

    def _insert(self, submissions: list[JobSubmission]) -> list[JobSnapshot]:
        """The new ones; none at all when MySQL met one that is not new."""
        match self._database.upsert:
            case UpsertStyle.ON_CONFLICT:
                return self._insert_skipping_existing(submissions)
            case UpsertStyle.ON_DUPLICATE_KEY:
                return self._insert_all_or_nothing(submissions)

    def _insert_skipping_existing(self, submissions: list[JobSubmission]) -> list[JobSnapshot]:
        given, statement = self._ground.built(_insert_skipping_existing, self._database)
        rows = self._connection.execute(statement, given.parameters([_row(each) for each in submissions]))
        created: dict[JobKey, UtcInstant] = {}
        for row in rows.mappings():
            created[JobKey(row["scope_hash"], row["job_id"])] = row["created_ticks"]
            self.transaction_id = row.get("transaction_id")
        return [_snapshot(each, created[each.key]) for each in submissions if each.key in created]

    def _insert_all_or_nothing(self, submissions: list[JobSubmission]) -> list[JobSnapshot]:
        """A duplicate ends this statement alone, not the transaction; it costs nothing when there is none."""
        now = read_ticks(self._connection, self._ground.clock)
        given, statement = self._ground.built(_insert_all, self._database)
        parameters = given.parameters([_row(each) for each in submissions]) | {"present": now}
        try:
            self._connection.execute(statement, parameters)
        except IntegrityError as error:
            if fault_of(error) is Fault.UNIQUE_VIOLATION:
                return []
            raise
        return [_snapshot(each, now) for each in submissions]

    def _stored(self, keys: list[JobKey]) -> list[JobSnapshot]:
        """The stored jobs among these."""
        given, query = self._ground.built(_read_stored, self._database)
        found = self._connection.execute(query, given.parameters(key_rows(keys))).mappings()
        return [snapshot_of(row) for row in found if row["job_id"] is not None]


def _insert_skipping_existing(ground: Ground, database: Database, _: None) -> tuple[Given, Any]:
    job = ground.job
    keys = [job.c.scope_hash, job.c.job_id]
    told: list[ColumnElement[Any]] = [*keys, job.c.created_ticks]
    if database.transaction_status:
        told.append(cast(func.pg_current_xact_id(), String).label("transaction_id"))
    given, names, rows = _given_jobs(ground, database, ground.clock.now_ticks())
    statement: Any = on_conflict_insert(database, job).from_select(names, rows, include_defaults=False)
    return given, statement.on_conflict_do_nothing(index_elements=keys).returning(*told)


def _insert_all(ground: Ground, database: Database, _: None) -> tuple[Given, Any]:
    given, names, rows = _given_jobs(ground, database, bindparam("present", type_=InstantTicks()))
    return given, insert(ground.job).from_select(names, rows, include_defaults=False)


def _given_jobs(
    ground: Ground, database: Database, now: ColumnElement[Any]
) -> tuple[Given, list[str], Select[*tuple[Any, ...]]]:
    given = given_rows(database, _COLUMNS)
    values = {
        **{name: given.c[name] for name in _COLUMNS},
        "created_ticks": now,
        "next_run_ticks": func.coalesce(given.c["initial_not_before_ticks"], now),
        "state": literal(JobState.QUEUED.value, ExactText(16)),
        "queued_in": given.c["queue"],
        **{name: literal(0) for name in ("attempt_count", "forgiven_count", "cancel_requested")},
    }
    # The condition tells SQLite that what follows ON is not a join.
    return given, list(values), select(*values.values()).select_from(given.source).where(true())


def _read_stored(ground: Ground, database: Database, _: None) -> tuple[Given, Select[*tuple[Any, ...]]]:
    given, job = given_rows(database, KEY_COLUMNS), ground.job
    # An outer join, so that MySQL looks up, and locks, these jobs alone.
    joined = given.source.outerjoin(job, same_key(job, given.c))
    query: Select[*tuple[Any, ...]] = select(*snapshot_columns(ground.tables)).select_from(joined)
    if database.upsert is UpsertStyle.ON_DUPLICATE_KEY:
        # A plain read of InnoDB sees the beginning of the transaction, perhaps before the other commit.
        query = query.with_for_update(read=True)
    return given, query


def _by_key(submissions: Sequence[JobSubmission]) -> dict[JobKey, JobSubmission]:
    """Each key once, sorted: two who store the same jobs then wait for one another in one order."""
    unique: dict[JobKey, JobSubmission] = {}
    for submission in submissions:
        _check_same(submission, unique.setdefault(submission.key, submission))
    return {key: unique[key] for key in sorted(unique)}


def _check_same(submission: JobSubmission, earlier: JobSubmission | JobSnapshot) -> None:
    if differs := submission.differs_from(earlier):
        raise JobIdentityConflictError(submission.key, differs)


def _answers(submissions: Sequence[JobSubmission], found: Found) -> list[Submitted]:
    """In the order of the submissions; one that comes twice was created by the first."""
    told: set[JobKey] = set()
    answers: list[Submitted] = []
    for submission in submissions:
        snapshot, created = found[submission.key]
        answers.append(Submitted(snapshot, created and submission.key not in told))
        told.add(submission.key)
    return answers


def _portions(submissions: list[JobSubmission]) -> Iterator[list[JobSubmission]]:
    portion: list[JobSubmission] = []
    units = 0
    for submission in submissions:
        length = len(submission.arguments)
        if portion and (len(portion) == _PORTION_ROWS or units + length > _PORTION_UNITS):
            yield portion
            portion, units = [], 0
        portion.append(submission)
        units += length
    if portion:
        yield portion


def _row(submission: JobSubmission) -> tuple[Any, ...]:
    not_before, trace = submission.initial_not_before, submission.trace
    return (
        submission.key.scope_hash,
        submission.key.job_id,
        submission.handler,
        submission.handler_version,
        submission.queue,
        submission.priority,
        submission.max_attempts,
        submission.arguments,
        None if not_before is None else not_before.ticks,
        trace.correlation_id,
        trace.traceparent,
        trace.tracestate,
    )


def _snapshot(submission: JobSubmission, created: UtcInstant) -> JobSnapshot:
    return JobSnapshot(
        key=submission.key,
        handler=submission.handler,
        handler_version=submission.handler_version,
        queue=submission.queue,
        priority=submission.priority,
        max_attempts=submission.max_attempts,
        initial_not_before=submission.initial_not_before,
        next_run=submission.initial_not_before or created,
        created=created,
        state=JobState.QUEUED,
        attempts_left=submission.max_attempts,
        correlation_id=submission.trace.correlation_id,
        arguments=submission.arguments,
    )
