"""Inserts that say what to do about a row that is already there, in the words of each database."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite

from uow.sql.dialect import Database, UpsertStyle


def on_conflict_insert(database: Database, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT for a database whose upsert style is ON_CONFLICT; the two kinds share their methods.

    Executed with a list of rows and a RETURNING clause it is one statement for up to 1,000 of them, as
    long as the ON CONFLICT clause binds no value.
    """
    return sqlite.insert(table) if database.single_writer else postgresql.insert(table)


def on_duplicate_insert(table: Table) -> mysql.Insert:
    """An INSERT for a database whose upsert style is ON_DUPLICATE_KEY.

    Executed with a list of rows it goes out as one multi-row statement as long as each VALUES entry is a
    plain bound value and the ON DUPLICATE clause binds none: so the drivers rewrite it.
    """
    return mysql.insert(table)


def insert_unless_there(
    database: Database, table: Table, *, key: Sequence[Column[Any]]
) -> postgresql.Insert | sqlite.Insert | mysql.Insert:
    """An INSERT that leaves a row with the same `key` exactly as it is."""
    if database.upsert is UpsertStyle.ON_DUPLICATE_KEY:
        # Not INSERT IGNORE: that would also hide values that do not fit.
        return on_duplicate_insert(table).on_duplicate_key_update([(key[0].name, key[0])])
    return on_conflict_insert(database, table).on_conflict_do_nothing(index_elements=list(key))


def inserts_many_at_once(connection: Connection) -> bool:
    """Whether a list of rows given to `execute` becomes one INSERT when the statement has RETURNING.

    Otherwise the values must stand in the statement itself, which is compiled anew for each list.
    """
    return connection.dialect.insert_executemany_returning
