"""Databases as values with capabilities; code asks for a capability, never for a name."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Dialect, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from uow.errors import FixTheCodeError


class UnsupportedDatabaseError(FixTheCodeError):
    """The database is none of PostgreSQL, SQLite, MariaDB and MySQL; it is refused, not guessed."""


class UpsertStyle(StrEnum):
    """How an insert says what to do about a row that is already there."""

    ON_CONFLICT = "on conflict"
    ON_DUPLICATE_KEY = "on duplicate key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """What one kind of database can do.

    skip_locked: SELECT ... FOR UPDATE SKIP LOCKED exists.
    update_returning: UPDATE ... RETURNING exists, so a claim is one statement.
    changing_ctes: a WITH clause may change rows, so that two tables are changed in one statement.
    notify: LISTEN/NOTIFY exists.
    transaction_status: the outcome of a transaction can be asked later by its id.
    single_writer: one writing transaction at a time; it must begin IMMEDIATE.
    error_aborts: a failed statement aborts the whole transaction unless it ran inside a savepoint.
    definition_commits: CREATE, ALTER, DROP and the like commit the transaction they run in.
    array_parameters: a list can be bound as one value.
    locks_only_what_it_takes: SELECT ... LIMIT ... FOR UPDATE locks the rows it returns and no others.
    partial_indexes: an index can leave rows out; a query that repeats its condition uses it.
    reads_a_snapshot: transactions run at REPEATABLE READ unless told otherwise.
    claim_isolation: the isolation level of store steps: claims must see what was committed meanwhile and
        lock nothing that they leave. An application may have chosen another one for its own transactions.
    parameters_limit: how many bound values one statement may carry.
    """

    name: str
    upsert: UpsertStyle
    skip_locked: bool
    update_returning: bool
    changing_ctes: bool
    notify: bool
    transaction_status: bool
    single_writer: bool
    error_aborts: bool
    definition_commits: bool
    array_parameters: bool
    locks_only_what_it_takes: bool
    partial_indexes: bool
    reads_a_snapshot: bool
    claim_isolation: str | None
    parameters_limit: int


POSTGRESQL: Final = Database(
    name="postgresql",
    upsert=UpsertStyle.ON_CONFLICT,
    skip_locked=True,
    update_returning=True,
    changing_ctes=True,
    notify=True,
    transaction_status=True,
    single_writer=False,
    error_aborts=True,
    definition_commits=False,
    array_parameters=True,
    locks_only_what_it_takes=True,
    partial_indexes=True,
    reads_a_snapshot=False,
    claim_isolation="READ COMMITTED",
    parameters_limit=32_767,
)
SQLITE: Final = Database(
    name="sqlite",
    upsert=UpsertStyle.ON_CONFLICT,
    skip_locked=False,
    update_returning=True,
    changing_ctes=False,
    notify=False,
    transaction_status=False,
    single_writer=True,
    error_aborts=False,
    definition_commits=False,
    array_parameters=False,
    locks_only_what_it_takes=True,
    partial_indexes=True,
    reads_a_snapshot=False,
    claim_isolation=None,
    parameters_limit=32_766,
)
MYSQL: Final = Database(
    name="mysql",
    upsert=UpsertStyle.ON_DUPLICATE_KEY,
    skip_locked=True,
    update_returning=False,
    changing_ctes=False,
    notify=False,
    transaction_status=False,
    single_writer=False,
    error_aborts=False,
    definition_commits=True,
    array_parameters=False,
    locks_only_what_it_takes=False,
    partial_indexes=False,
    reads_a_snapshot=True,
    claim_isolation="READ COMMITTED",
    parameters_limit=65_535,
)

_BY_NAME: Final = {"postgresql": POSTGRESQL, "sqlite": SQLITE, "mysql": MYSQL, "mariadb": MYSQL}


def database_of(
    source: AsyncEngine | AsyncConnection | Engine | Connection | Dialect | Any,
) -> Database:
    """The capabilities of the database behind an engine, connection or SQLAlchemy dialect.

    Raises UnsupportedDatabaseError for any other database.
    """
    dialect = source if isinstance(source, Dialect) else source.dialect
    database = _BY_NAME.get(dialect.name)
    if database is None:
        raise UnsupportedDatabaseError(
            f"database {dialect.name!r} is not supported; use PostgreSQL, MariaDB, MySQL or SQLite"
        )
    return database
