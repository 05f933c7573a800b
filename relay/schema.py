"""Our tables on the application's MetaData: adding them, their DDL, comparing a database with them."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Column, Connection, Dialect, Index, MetaData, Table, inspect
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from inbox.table import InboxNotMappedError, add_inbox_table, inbox_table
from jobs.schedule.batching.cursor_table import add_cursor_table, cursor_table
from jobs.schedule.storing.table import add_schedule_tables, find_schedule_tables
from jobs.table import JobsNotMappedError, add_job_tables, job_tables
from outbox.table import OutboxNotMappedError, add_outbox_table, outbox_table
from relay.admin.operation import add_operation_table, operation_table
from uow.errors import FixTheCodeError
from uow.sql.lease import add_lease_table, lease_table


class SchemaError(FixTheCodeError):
    """The database does not hold our tables as this version declares them; a migration must bring them."""

    def __init__(self, differences: Sequence["SchemaDifference"]) -> None:
        lines = "".join(f"\n  {difference}" for difference in differences)
        super().__init__(
            f"the database differs from the tables of this version in {len(differences)} place(s):{lines}\n"
            "Create them with a migration (Alembic autogenerate sees them on your MetaData; "
            "`selfmanaged schema ddl` prints the statements)"
        )
        self.differences = tuple(differences)


class SchemaProblem(StrEnum):
    """In what a database differs."""

    MISSING_TABLE = "missing table"
    MISSING_COLUMN = "missing column"
    DIFFERENT_TYPE = "different type"
    DIFFERENT_NULLABLE = "different nullability"
    MISSING_INDEX = "missing index"
    DIFFERENT_INDEX = "different index"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDifference:
    """One difference; `name` is the table, or `table.column`, or the index."""

    problem: SchemaProblem
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.problem}: {self.name}" + (f" ({self.detail})" if self.detail else "")


def add_messaging_tables(
    metadata: MetaData,
    *,
    schema: str | None = None,
    outbox: bool = True,
    inbox: bool = True,
    jobs: bool = True,
    schedules: bool = True,
) -> None:
    """Add the tables of outbox, inbox, jobs, schedules, leases and operations to the application's MetaData.

    Call it once, where the application declares its own tables; calling it again changes nothing. `schema`
    is the database schema of our tables when it is not the MetaData's own. A part that is not used can be
    left out; an App needs outbox and inbox, and schedules need jobs.
    """
    if outbox:
        add_outbox_table(metadata, schema=schema)
    if inbox:
        add_inbox_table(metadata, schema=schema)
    if jobs:
        add_job_tables(metadata, schema=schema)
    if jobs and schedules:
        add_schedule_tables(metadata, schema=schema)
        add_cursor_table(metadata, schema=schema)
    add_lease_table(metadata, schema=schema)
    add_operation_table(metadata, schema=schema)


def messaging_tables(metadata: MetaData) -> tuple[Table, ...]:
    """Our tables on this MetaData, without the parts that were left out.

    Raises a `...NotMappedError` when `add_messaging_tables` was not called.
    """
    parts: list[Table] = []
    with contextlib.suppress(OutboxNotMappedError):
        parts.append(outbox_table(metadata))
    with contextlib.suppress(InboxNotMappedError):
        parts.append(inbox_table(metadata))
    with contextlib.suppress(JobsNotMappedError):
        tables = job_tables(metadata)
        parts += [tables.job, tables.attempt]
    if (schedules := find_schedule_tables(metadata)) is not None:
        parts += [schedules.schedule, schedules.run, schedules.action, schedules.host]
        parts.append(cursor_table(metadata))
    return (*parts, lease_table(metadata), operation_table(metadata))


def ddl(metadata: MetaData, dialect: Dialect) -> list[str]:
    """The statements that create our tables and indexes on a database of this dialect, without semicolons."""
    statements: list[str] = []
    for table in messaging_tables(metadata):
        elements: list[ExecutableDDLElement] = [CreateTable(table)]
        elements += [CreateIndex(index) for index in _indexes(table)]
        for element in elements:
            lines = str(element.compile(dialect=dialect)).strip().splitlines()
            statements.append("\n".join(line.rstrip() for line in lines))
    return statements


def schema_differences(connection: Connection, metadata: MetaData) -> list[SchemaDifference]:
    """In what the connected database differs from our tables; empty when all is there.

    Further columns and indexes of the application's own are no difference.
    """
    inspector = inspect(connection)
    found: list[SchemaDifference] = []
    for table in messaging_tables(metadata):
        if not inspector.has_table(table.name, schema=table.schema):
            found.append(SchemaDifference(problem=SchemaProblem.MISSING_TABLE, name=table.fullname))
            continue
        columns = {
            column["name"]: column for column in inspector.get_columns(table.name, schema=table.schema)
        }
        for column in table.columns:
            found += _column_differences(table, column, columns.get(column.name), connection.dialect)
        indexes = {index["name"]: index for index in inspector.get_indexes(table.name, schema=table.schema)}
        for index in _indexes(table):
            found += _index_differences(index, indexes.get(index.name))
    return found


def check_schema(connection: Connection, metadata: MetaData) -> None:
    """Raise SchemaError with every difference, unless the database holds our tables as declared."""
    if differences := schema_differences(connection, metadata):
        raise SchemaError(differences)


def _indexes(table: Table) -> list[Index]:
    return sorted(table.indexes, key=lambda index: str(index.name))


def _column_differences(
    table: Table, column: Column[Any], stored: Any, dialect: Dialect
) -> list[SchemaDifference]:
    name = f"{table.fullname}.{column.name}"
    if stored is None:
        return [SchemaDifference(problem=SchemaProblem.MISSING_COLUMN, name=name)]
    found: list[SchemaDifference] = []
    wanted_type = _plain_type(column.type.compile(dialect=dialect))
    stored_type = _plain_type(stored["type"].compile(dialect=dialect))
    if wanted_type != stored_type:
        detail = f"is {stored_type}, should be {wanted_type}"
        found.append(SchemaDifference(problem=SchemaProblem.DIFFERENT_TYPE, name=name, detail=detail))
    if stored["nullable"] != column.nullable:
        detail = f"should be {'NULL' if column.nullable else 'NOT NULL'}"
        found.append(SchemaDifference(problem=SchemaProblem.DIFFERENT_NULLABLE, name=name, detail=detail))
    return found


def _index_differences(index: Index, stored: Any) -> list[SchemaDifference]:
    name = str(index.name)
    if stored is None:
        return [SchemaDifference(problem=SchemaProblem.MISSING_INDEX, name=name)]
    wanted = ([column.name for column in index.columns], bool(index.unique))
    if (stored["column_names"], bool(stored["unique"])) == wanted:
        return []
    unique = "UNIQUE " if index.unique else ""
    detail = f"should be {unique}on ({', '.join(wanted[0])})"
    return [SchemaDifference(problem=SchemaProblem.DIFFERENT_INDEX, name=name, detail=detail)]


_INTEGER_WIDTH: Final = re.compile(r"\b(BIGINT|SMALLINT|INTEGER|INT)\(\d+\)")


def _plain_type(text: str) -> str:
    """A type as written, without what databases only display: widths of integers, quotes of collations."""
    return _INTEGER_WIDTH.sub(r"\1", text.upper().replace('"', ""))
