"""The tables of jobs and their attempts, added to the application's MetaData."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    literal_column,
    type_coerce,
)

from uow.errors import FixTheCodeError
from uow.sql.types import ExactLongText, ExactText, ExactUuid, InstantTicks, digest_type

DUE_INDEX: Final = "ix_jobs_job_due"
LEASED_INDEX: Final = "ix_jobs_job_leased"
FINAL_INDEX: Final = "ix_jobs_job_final"
SCOPE_INDEX: Final = "ix_jobs_job_scope"

JOB_ID_UNITS: Final = 200
NAME_UNITS: Final = 128
OWNER_UNITS: Final = 200
CODE_UNITS: Final = 64
TEXT_UNITS: Final = 1000

_INFO_KEY: Final = "selfmanaged.jobs"


class JobsNotMappedError(FixTheCodeError):
    """The MetaData does not hold the tables of jobs; call `jobs.add_job_tables(metadata)` first."""


@dataclass(frozen=True, slots=True)
class JobTables:
    """Both tables of one MetaData."""

    job: Table
    attempt: Table


def add_job_tables(metadata: MetaData, *, schema: str | None = None) -> JobTables:
    """Add `jobs_job` and `jobs_attempt` to the application's MetaData; a second call returns the same.

    `schema` is the database schema, when it is not the MetaData's own. All times are ticks by the
    database's clock. `queued_in` is the queue while the job is queued and NULL otherwise, so that the due
    index holds queued jobs alone; `lease_expires_ticks` is set while it runs, `completed_ticks` once it is
    final. `attempt_count` is the number of attempts begun; `forgiven_count` of them used none up.
    `attempt_token` is the token of the last one, which fences only while the job is running.
    """
    if _INFO_KEY in metadata.info:
        return job_tables(metadata)
    tables = JobTables(_job_table(metadata, schema), _attempt_table(metadata, schema))
    metadata.info[_INFO_KEY] = (tables.job.key, tables.attempt.key)
    return tables


def job_tables(metadata: MetaData) -> JobTables:
    """The tables of jobs of this MetaData. Raises JobsNotMappedError when they were not added."""
    keys = metadata.info.get(_INFO_KEY, ())
    if not keys or any(key not in metadata.tables for key in keys):
        raise JobsNotMappedError(
            "this MetaData has no tables of jobs; call jobs.add_job_tables(metadata) "
            "(or relay.add_messaging_tables(metadata)) where the application's tables are declared"
        )
    job, attempt = keys
    return JobTables(metadata.tables[job], metadata.tables[attempt])


def find_job_tables(metadata: MetaData) -> JobTables | None:
    """The tables of jobs of this MetaData, or None when they were left out."""
    return job_tables(metadata) if _INFO_KEY in metadata.info else None


def _job_table(metadata: MetaData, schema: str | None) -> Table:
    table = Table(
        "jobs_job",
        metadata,
        *_key_columns(),
        *_submission_columns(),
        Column("state", ExactText(16), nullable=False),
        Column("queued_in", ExactText(NAME_UNITS)),
        Column("next_run_ticks", InstantTicks(), nullable=False),
        Column("attempt_count", Integer(), nullable=False),
        Column("forgiven_count", Integer(), nullable=False),
        Column("attempt_token", ExactUuid()),
        Column("owner", ExactText(OWNER_UNITS)),
        Column("lease_expires_ticks", InstantTicks()),
        Column("heartbeat_ticks", InstantTicks()),
        Column("cancel_requested", SmallInteger(), nullable=False),
        *_outcome_columns(),
        Column("completed_ticks", InstantTicks()),
        schema=schema,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )
    columns = table.c
    _partial_index(DUE_INDEX, columns.queued_in, columns.queued_in, columns.priority, columns.next_run_ticks)
    _partial_index(LEASED_INDEX, columns.lease_expires_ticks, columns.lease_expires_ticks, columns.queue)
    _partial_index(FINAL_INDEX, columns.completed_ticks, columns.state, columns.completed_ticks)
    listed = is_listed(table)
    scope = (columns.scope_hash, columns.created_ticks, columns.job_id)
    Index(SCOPE_INDEX, *scope, postgresql_where=listed, sqlite_where=listed)
    return table


def is_listed(job: Table) -> ColumnElement[bool]:
    """True of every job; a query that says it may use the index of a scope's jobs by their age.

    Others cannot: PostgreSQL, which knows nothing of a table that is new, would take it for as good a way to
    one job by its key as the primary key, and read all jobs of the scope.
    """
    return type_coerce(job.c.created_ticks, BigInteger()) > literal_column("0")


def _attempt_table(metadata: MetaData, schema: str | None) -> Table:
    return Table(
        "jobs_attempt",
        metadata,
        *_key_columns(),
        Column("ordinal", Integer(), primary_key=True, autoincrement=False),
        Column("token", ExactUuid(), nullable=False),
        Column("state", ExactText(16), nullable=False),
        Column("owner", ExactText(OWNER_UNITS), nullable=False),
        Column("started_ticks", InstantTicks(), nullable=False),
        Column("ended_ticks", InstantTicks()),
        *_outcome_columns(),
        schema=schema,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        # Each row is changed once: room for that on its page spares the index.
        postgresql_with={"fillfactor": 50},
    )


def _key_columns() -> tuple[Column[Any], ...]:
    return (
        Column("scope_hash", digest_type(), primary_key=True),
        Column("job_id", ExactText(JOB_ID_UNITS), primary_key=True),
    )


def _submission_columns() -> tuple[Column[Any], ...]:
    return (
        Column("handler", ExactText(NAME_UNITS), nullable=False),
        Column("handler_version", Integer(), nullable=False),
        Column("queue", ExactText(NAME_UNITS), nullable=False),
        Column("priority", SmallInteger(), nullable=False),
        Column("max_attempts", SmallInteger(), nullable=False),
        Column("arguments", ExactLongText(), nullable=False),
        Column("initial_not_before_ticks", InstantTicks()),
        Column("created_ticks", InstantTicks(), nullable=False),
        Column("correlation_id", ExactText(200)),
        Column("traceparent", ExactText(128)),
        Column("tracestate", ExactText(512)),
    )


def _outcome_columns() -> tuple[Column[Any], ...]:
    return (
        Column("progress_percent", SmallInteger()),
        Column("progress_message", ExactText(TEXT_UNITS)),
        Column("result_reference", ExactText(TEXT_UNITS)),
        Column("error_code", ExactText(CODE_UNITS)),
        Column("error_detail", ExactText(TEXT_UNITS)),
    )


def _partial_index(name: str, present: Column[Any], *columns: Column[Any]) -> None:
    """An index of the rows in which `present` is not NULL; of all rows where the database has no such."""
    rows = present.is_not(None)
    Index(name, *columns, postgresql_where=rows, sqlite_where=rows)
