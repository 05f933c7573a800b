"""Recovery: attempts that nobody will end are ended, and their jobs queued again where that is allowed."""

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, Integer, Row, Select, bindparam, select

from jobs.answer import ExpiredAttempt, Recovered, Settled
from jobs.ground import Ground
from jobs.key import AttemptReference
from jobs.lease import prolong
from jobs.settle import settle_many
from jobs.settlement import Settlement
from jobs.table import LEASED_INDEX
from uow.sql.dialect import Database, database_of
from uow.sql.index_hint import read_by
from uow.sql.planner import at_most, unforeseen

LEASE_EXPIRED: Final = "lease_expired"
"""The error code of an attempt that ended because its executor died or lost touch."""
INTERRUPTED: Final = "interrupted"
"""The error code of an attempt that was recovered by its token."""

_LIMIT: Final = "expired_limit"


def recover_expired(
    connection: Connection,
    ground: Ground,
    limit: int,
    requeue: Callable[[ExpiredAttempt], bool],
    delay_seconds: Callable[[ExpiredAttempt], float],
) -> list[Recovered]:
    """See JobStore.recover_expired."""
    expired = ground.built(_lock_expired, database_of(connection))
    attempts = [_expired_attempt(row) for row in connection.execute(expired, {_LIMIT: limit})]
    endings = [
        Settlement.interrupt(
            attempt.reference,
            error_code=LEASE_EXPIRED,
            error_detail="its executor died, or did not renew the lease, before the attempt had ended",
            requeue=requeue(attempt),
            delay_seconds=delay_seconds(attempt),
        )
        for attempt in attempts
    ]
    settled = settle_many(connection, ground, endings, leased=False)
    broken = [
        attempt.reference
        for attempt, outcome in zip(attempts, settled, strict=True)
        if outcome is Settled.ATTEMPT_MISSING
    ]
    if broken:
        # Lest they stand in front of all others for ever.
        prolong(connection, ground, broken)
    return [
        Recovered(attempt=attempt, settled=outcome)
        for attempt, outcome in zip(attempts, settled, strict=True)
    ]


def recover(
    connection: Connection, ground: Ground, reference: AttemptReference, *, requeue: bool, counts: bool
) -> Settled:
    """See JobStore.recover."""
    ending = Settlement.interrupt(
        reference,
        error_code=INTERRUPTED,
        error_detail="it was recovered before its handler had ended",
        requeue=requeue,
        counts=counts,
    )
    return settle_many(connection, ground, [ending], leased=False)[0]


def _lock_expired(ground: Ground, database: Database, _: None) -> Select[*tuple[Any, ...]]:
    columns = ground.job.c
    running: Select[*tuple[Any, ...]] = select(
        columns.scope_hash,
        columns.job_id,
        columns.attempt_count,
        columns.attempt_token,
        columns.handler,
        columns.handler_version,
        columns.owner,
    )
    return (
        read_by(running, ground.job, LEASED_INDEX)
        .where(columns.lease_expires_ticks <= unforeseen(ground.clock.now_ticks()))
        .order_by(columns.lease_expires_ticks)
        .limit(at_most(bindparam(_LIMIT, type_=Integer())))
        .with_for_update(skip_locked=database.skip_locked)
    )


def _expired_attempt(row: Row[*tuple[Any, ...]]) -> ExpiredAttempt:
    scope_hash, job_id, ordinal, token, handler, handler_version, owner = row
    return ExpiredAttempt(
        reference=AttemptReference(scope_hash, job_id, ordinal, token),
        handler=handler,
        handler_version=handler_version,
        owner=owner,
    )
