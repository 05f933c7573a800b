"""The tables of schedules, added to the application's MetaData."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, SmallInteger, Table

from jobs.table import CODE_UNITS, JOB_ID_UNITS, OWNER_UNITS, TEXT_UNITS
from uow.errors import FixTheCodeError
from uow.sql.types import ExactText, ExactUuid, InstantTicks, sequence_type

NAME_UNITS: Final = 100
TRIGGER_UNITS: Final = 500
SCHEDULE_DUE_INDEX: Final = "ix_jobs_schedule_due"
SCHEDULE_WAITING_INDEX: Final = "ix_jobs_schedule_waiting"
RUN_OPEN_INDEX: Final = "ix_jobs_schedule_run_open"
RUN_HISTORY_INDEX: Final = "ix_jobs_schedule_run_history"
ACTION_HISTORY_INDEX: Final = "ix_jobs_schedule_action_history"

_INFO_KEY: Final = "selfmanaged.schedules"


class SchedulesNotMappedError(FixTheCodeError):
    """The MetaData does not hold the tables of schedules; call `add_schedule_tables(metadata)` first."""


@dataclass(frozen=True, slots=True)
class ScheduleTables:
    """The tables of one MetaData: schedules, their runs, what people and hosts did, and the hosts."""

    schedule: Table
    run: Table
    action: Table
    host: Table


def add_schedule_tables(metadata: MetaData, *, schema: str | None = None) -> ScheduleTables:
    """Add the tables of schedules to the application's MetaData; a second call returns the same.

    `schema` is the database schema, when it is not the MetaData's own. All times are ticks by the
    database's clock. `next_fire_ticks` is set while a schedule has a slot to come; `waiting_nominal_ticks`
    is a slot that waits for the end of the run before it. `fencing_number` grows with every change of a
    schedule, and every change names the number that it saw.
    """
    if _INFO_KEY in metadata.info:
        return schedule_tables(metadata)
    tables = ScheduleTables(
        _schedule_table(metadata, schema),
        _run_table(metadata, schema),
        _action_table(metadata, schema),
        _host_table(metadata, schema),
    )
    keys = (tables.schedule.key, tables.run.key, tables.action.key, tables.host.key)
    metadata.info[_INFO_KEY] = keys
    return tables


def schedule_tables(metadata: MetaData) -> ScheduleTables:
    """The tables of schedules of this MetaData. Raises SchedulesNotMappedError when they were not added."""
    found = find_schedule_tables(metadata)
    if found is None:
        raise SchedulesNotMappedError(
            "this MetaData has no tables of schedules; call relay.add_messaging_tables(metadata) where the "
            "application's tables are declared, without schedules=False"
        )
    return found


def find_schedule_tables(metadata: MetaData) -> ScheduleTables | None:
    """The tables of schedules of this MetaData, or None when they were left out."""
    keys = metadata.info.get(_INFO_KEY, ())
    if not keys or any(key not in metadata.tables for key in keys):
        return None
    schedule, run, action, host = (metadata.tables[key] for key in keys)
    return ScheduleTables(schedule, run, action, host)


def _schedule_table(metadata: MetaData, schema: str | None) -> Table:
    table = Table(
        "jobs_schedule",
        metadata,
        Column("name", ExactText(NAME_UNITS), primary_key=True),
        Column("module", ExactText(200), nullable=False),
        Column("trigger_text", ExactText(TRIGGER_UNITS)),
        Column("override_source", ExactText(200)),
        Column("declared", SmallInteger(), nullable=False),
        Column("enabled", SmallInteger(), nullable=False),
        Column("critical", SmallInteger(), nullable=False),
        Column("paused", SmallInteger(), nullable=False),
        Column("next_fire_ticks", InstantTicks()),
        Column("last_nominal_ticks", InstantTicks()),
        Column("waiting_nominal_ticks", InstantTicks()),
        Column("fencing_number", BigInteger(), nullable=False),
        Column("fired_count", BigInteger(), nullable=False),
        Column("misfired_count", BigInteger(), nullable=False),
        Column("overlapped_count", BigInteger(), nullable=False),
        Column("host", ExactText(OWNER_UNITS)),
        Column("last_success_ticks", InstantTicks()),
        Column("changed_ticks", InstantTicks(), nullable=False),
        **_options(schema),
    )
    _partial_index(SCHEDULE_DUE_INDEX, table.c.next_fire_ticks)
    _partial_index(SCHEDULE_WAITING_INDEX, table.c.waiting_nominal_ticks)
    return table


def _run_table(metadata: MetaData, schema: str | None) -> Table:
    table = Table(
        "jobs_schedule_run",
        metadata,
        Column("run_id", ExactUuid(), primary_key=True),
        Column("name", ExactText(NAME_UNITS), nullable=False),
        # The name while the run has not ended, so that the index of open runs holds those alone.
        Column("open_name", ExactText(NAME_UNITS)),
        Column("nominal_ticks", InstantTicks(), nullable=False),
        Column("cause", ExactText(16), nullable=False),
        Column("job_id", ExactText(JOB_ID_UNITS), nullable=False),
        Column("attempt", Integer()),
        Column("staged_ticks", InstantTicks(), nullable=False),
        Column("started_ticks", InstantTicks()),
        Column("ended_ticks", InstantTicks()),
        Column("outcome", ExactText(16)),
        Column("code", ExactText(CODE_UNITS)),
        Column("detail", ExactText(TEXT_UNITS)),
        **_options(schema),
    )
    _partial_index(RUN_OPEN_INDEX, table.c.open_name)
    Index(RUN_HISTORY_INDEX, table.c.name, table.c.staged_ticks)
    return table


def _action_table(metadata: MetaData, schema: str | None) -> Table:
    table = Table(
        "jobs_schedule_action",
        metadata,
        Column("sequence", sequence_type(), primary_key=True, autoincrement=True),
        Column("name", ExactText(NAME_UNITS), nullable=False),
        Column("kind", ExactText(16), nullable=False),
        Column("actor", ExactText(OWNER_UNITS), nullable=False),
        Column("reason", ExactText(TEXT_UNITS)),
        Column("detail", ExactText(TEXT_UNITS)),
        Column("occurred_ticks", InstantTicks(), nullable=False),
        sqlite_autoincrement=True,
        **_options(schema),
    )
    Index(ACTION_HISTORY_INDEX, table.c.name, table.c.sequence)
    return table


def _host_table(metadata: MetaData, schema: str | None) -> Table:
    return Table(
        "jobs_schedule_host",
        metadata,
        Column("host", ExactText(OWNER_UNITS), primary_key=True),
        Column("started_ticks", InstantTicks(), nullable=False),
        Column("ticked_ticks", InstantTicks(), nullable=False),
        Column("zone_data", ExactText(CODE_UNITS), nullable=False),
        Column("ahead_ticks", BigInteger(), nullable=False),
        **_options(schema),
    )


def _options(schema: str | None) -> dict[str, Any]:
    return {"schema": schema, "mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def _partial_index(name: str, column: Column[Any]) -> None:
    """An index of the rows in which `column` is not NULL; of all rows where the database has no such."""
    rows = column.is_not(None)
    Index(name, column, postgresql_where=rows, sqlite_where=rows)
