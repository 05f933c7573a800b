"""Settling: attempts end and their jobs move on, all in a few statements that carry the tokens."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from sqlalchemy import Connection, Select, and_, case, func, select

from jobs.answer import Settled
from jobs.ground import REFERENCE_COLUMNS, Ground, reference_rows
from jobs.key import AttemptReference
from jobs.options import BATCH_LIMIT
from jobs.settle_at_once import settle_at_once
from jobs.settle_stepwise import settle_locked, settle_then_end
from jobs.settlement import Settlement
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows


def settle_many(
    connection: Connection, ground: Ground, settlements: Sequence[Settlement], *, leased: bool = True
) -> list[Settled]:
    """See JobStore.settle_many. Without `leased` it does not matter whether the lease has expired."""
    tokens = [settlement.reference.token for settlement in settlements]
    if len(set(tokens)) < len(tokens):
        raise ValueError("an attempt is settled once; these settlements name one twice")
    settled: dict[UUID, Settled] = {}
    for portion in _portions(settlements):
        settled |= _settle(connection, ground, portion, leased)
        left = [each.reference for each in portion if each.reference.token not in settled]
        if left:
            missing = _without_attempt(connection, ground, left, leased)
            settled |= dict.fromkeys(missing, Settled.ATTEMPT_MISSING)
    return [settled.get(token, Settled.FENCED) for token in tokens]


def _settle(
    connection: Connection, ground: Ground, settlements: Sequence[Settlement], leased: bool
) -> dict[UUID, Settled]:
    """What became of those that were ours and have an attempt, by their tokens."""
    database = database_of(connection)
    if database.changing_ctes:
        return settle_at_once(connection, ground, settlements, leased=leased)
    if database.update_returning:
        return settle_then_end(connection, ground, settlements, leased=leased)
    return settle_locked(connection, ground, settlements, leased=leased)


def _without_attempt(
    connection: Connection, ground: Ground, references: Sequence[AttemptReference], leased: bool
) -> list[UUID]:
    """The tokens of those that are ours all the same, so that the row of their attempt must be gone."""
    given, held = ground.built(_held_without_attempt, database_of(connection), leased)
    return list(connection.execute(held, given.parameters(reference_rows(references))).scalars())


def _held_without_attempt(ground: Ground, database: Database, leased: bool) -> tuple[Given, Select[UUID]]:
    given = given_rows(database, REFERENCE_COLUMNS)
    gone = func.coalesce(case((ground.attempt_is_there(given), 1)), 0) == 0
    ours = ground.holds(ground.job, given, leased=leased)
    return given, select(given.c["token"]).join_from(given.source, ground.job, and_(ours, gone))


def _portions(settlements: Sequence[Settlement]) -> Iterator[Sequence[Settlement]]:
    """Sorted, so that two who settle the same jobs wait for one another in one order."""
    ordered = sorted(settlements, key=lambda settlement: settlement.reference.key)
    for first in range(0, len(ordered), BATCH_LIMIT):
        yield ordered[first : first + BATCH_LIMIT]
