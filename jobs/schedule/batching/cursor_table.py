"""The table of batch cursors, added to the application's MetaData."""

from typing import Final

from sqlalchemy import BigInteger, Column, MetaData, Table

from jobs.schedule.batching.position import POSITION_UNITS
from jobs.schedule.batching.scoped_name import WORK_NAME_CHARACTERS
from jobs.schedule.batching.tenant_scope import TENANT_UNITS
from uow.errors import FixTheCodeError
from uow.sql.types import ExactText, InstantTicks

_INFO_KEY: Final = "selfmanaged.cursors"


class CursorsNotMappedError(FixTheCodeError):
    """The MetaData does not hold the table of cursors; call `add_cursor_table(metadata)` first."""


def add_cursor_table(metadata: MetaData, *, schema: str | None = None) -> Table:
    """Add `jobs_cursor` to the application's MetaData; a second call returns the same table.

    `schema` is the database schema, when it is not the MetaData's own. One row for each cursor and tenant,
    where `tenant` is empty for work that is nobody's in particular. `position` is JSON text, NULL at the
    beginning. `version` grows with every change, and every change of a runner names the one it saw.
    """
    if _INFO_KEY in metadata.info:
        return cursor_table(metadata)
    table = Table(
        "jobs_cursor",
        metadata,
        Column("name", ExactText(WORK_NAME_CHARACTERS), primary_key=True),
        Column("tenant", ExactText(TENANT_UNITS), primary_key=True),
        Column("position", ExactText(POSITION_UNITS)),
        Column("version", BigInteger(), nullable=False),
        Column("changed_ticks", InstantTicks(), nullable=False),
        schema=schema,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )
    metadata.info[_INFO_KEY] = table.key
    return table


def cursor_table(metadata: MetaData) -> Table:
    """The table of cursors of this MetaData. Raises CursorsNotMappedError when it was not added."""
    table = find_cursor_table(metadata)
    if table is None:
        raise CursorsNotMappedError(
            "this MetaData has no table of cursors; call add_cursor_table(metadata) "
            "(or relay.add_messaging_tables(metadata)) where the application's tables are declared"
        )
    return table


def find_cursor_table(metadata: MetaData) -> Table | None:
    """The table of cursors of this MetaData, or None when it was left out."""
    return metadata.tables.get(metadata.info.get(_INFO_KEY, ""))
