"""Settling in one statement, where a WITH clause may change rows."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, Select, select, update

from jobs.answer import Settled
from jobs.ending import (
    ENDING_COLUMNS,
    Deciding,
    attempt_values,
    ended_columns,
    ending_row,
    job_values,
)
from jobs.ground import Ground, same_key
from jobs.settlement import Settlement
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows


def settle_at_once(
    connection: Connection, ground: Ground, settlements: Sequence[Settlement], *, leased: bool
) -> dict[UUID, Settled]:
    """What became of those that were ours and have an attempt.

    A cancellation that commits while this waits for the row is seen: the values are worked out again from
    the row as it then is.
    """
    given, told = ground.built(_statement, database_of(connection), leased)
    rows = connection.execute(told, given.parameters([ending_row(each) for each in settlements]))
    return {token: Settled(state) for token, state in rows}


def _statement(ground: Ground, database: Database, leased: bool) -> tuple[Given, Select[UUID, str]]:
    given = given_rows(database, ENDING_COLUMNS)
    job, attempt = ground.job, ground.attempt
    ending = Deciding(job, given)
    settled = (
        update(job)
        .where(ground.holds(job, given, leased=leased), ground.attempt_is_there(given))
        .values(job_values(ground, given, ending))
        .returning(
            job.c.scope_hash,
            job.c.job_id,
            job.c.state,
            given.c["ordinal"].label("ordinal"),
            given.c["token"].label("token"),
            *(column.label(name) for name, column in ended_columns(given, ending).items()),
        )
        .cte("settled")
    )
    ended = (
        update(attempt)
        .where(same_key(attempt, settled.c), attempt.c.ordinal == settled.c.ordinal)
        .values(attempt_values(ground, dict(settled.c.items())))
        .returning(attempt.c.ordinal)
        .cte("ended")
    )
    return given, select(settled.c.token, settled.c.state).add_cte(ended)
