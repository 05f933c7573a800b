"""Inserting what is not there yet, without an error that would abort a PostgreSQL transaction."""

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite

from uow.sql.dialect import Database


def insert_skipping_existing(table: Table, database: Database, *, unique: str) -> Insert:
    """An INSERT that leaves rows alone whose value of the column `unique` is there already.

    Only for databases whose upsert style is ON CONFLICT; it waits for a concurrent transaction that
    inserts the same value. RETURNING gives the added rows alone.
    """
    if database.single_writer:
        return sqlite.insert(table).on_conflict_do_nothing(index_elements=[unique])
    return postgresql.insert(table).on_conflict_do_nothing(index_elements=[unique])


def inserts_many_at_once(connection: Connection) -> bool:
    """Whether a list of rows given to `execute` becomes one INSERT when the statement has RETURNING.

    Otherwise the values must stand in the statement itself, which is compiled anew for each list.
    """
    return connection.dialect.insert_executemany_returning
