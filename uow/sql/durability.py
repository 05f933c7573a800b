"""Whether a COMMIT on this connection survives the loss of power."""

from typing import Final

from sqlalchemy import Connection, text

from uow.sql.dialect import Database, database_of

_QUESTIONS: Final = {
    "postgresql": ("SHOW fsync", "SHOW synchronous_commit", "SHOW full_page_writes"),
    "sqlite": ("PRAGMA synchronous", "PRAGMA journal_mode"),
    "mysql": ("SELECT @@innodb_flush_log_at_trx_commit",),
}
_UNSAFE: Final = {
    "SHOW fsync": ("off",),
    "SHOW synchronous_commit": ("off",),
    "SHOW full_page_writes": ("off",),
    "PRAGMA synchronous": ("0",),
    "PRAGMA journal_mode": ("off", "memory"),
    "SELECT @@innodb_flush_log_at_trx_commit": ("0", "2"),
}


def durability_faults(connection: Connection) -> list[str]:
    """What of the database's settings lets commits be lost, one sentence each; empty when nothing does."""
    database: Database = database_of(connection)
    faults = []
    for question in _QUESTIONS[database.name]:
        answer = str(connection.execute(text(question)).scalar())
        if answer in _UNSAFE[question]:
            setting = question.split()[-1].removeprefix("@@")
            faults.append(f"{setting} is {answer}: a commit may be lost when the server loses its power")
    return faults
