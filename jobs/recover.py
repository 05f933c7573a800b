"""Recovery: attempts that nobody will end are ended, and their jobs queued again where that is allowed."""

import math
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    bindparam,
    or_,
    select,
    type_coerce,
)

from jobs.answer import ExpiredAttempt, Recovered, Settled
from jobs.ground import Ground
from jobs.key import AttemptReference
from jobs.lease import prolong
from jobs.settle import settle_many
from jobs.settlement import Settlement
from jobs.starting import Handlers, is_known, known_parameters
from jobs.table import LEASED_INDEX
from uow.sql.clock import ticks_of
from uow.sql.dialect import Database, database_of
from uow.sql.index_hint import read_by
from uow.sql.planner import at_most, unestimated, unforeseen
from uow.sql.types import InstantTicks

LEASE_EXPIRED: Final = "lease_expired"
"""The error code of an attempt that ended because its executor died or lost touch."""
INTERRUPTED: Final = "interrupted"
"""The error code of an attempt that was recovered by its token."""

_LIMIT: Final = "expired_limit"
_ABANDONED: Final = "abandoned_ticks"


def recover_expired(
    connection: Connection,
    ground: Ground,
    *,
    limit: int,
    handlers: Handlers | None,
    abandoned_seconds: float,
    requeue: Callable[[ExpiredAttempt], bool],
    delay_seconds: Callable[[ExpiredAttempt], float],
) -> list[Recovered]:
    """See JobStore.recover_expired."""
    expired = ground.built(_lock_expired, database_of(connection), handlers is not None)
    parameters = {_LIMIT: limit} | _choice(handlers, abandoned_seconds)
    attempts = [_expired_attempt(row) for row in connection.execute(expired, parameters)]
    # Those of other handlers run no more by themselves: nobody here can say whether they may.
    again = [_has(handlers, attempt) and requeue(attempt) for attempt in attempts]
    endings = [
        Settlement.interrupt(
            attempt.reference,
            error_code=LEASE_EXPIRED,
            error_detail="its executor died, or did not renew the lease, before the attempt had ended",
            requeue=wished,
            delay_seconds=delay_seconds(attempt) if wished else 0.0,
        )
        for attempt, wished in zip(attempts, again, strict=True)
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


def _choice(handlers: Handlers | None, abandoned_seconds: float) -> dict[str, Any]:
    """The parameters of `_may_be_decided`."""
    if not (math.isfinite(abandoned_seconds) and abandoned_seconds >= 0):
        raise ValueError(f"abandoned_seconds must be at least 0 and finite, not {abandoned_seconds!r}")
    if handlers is None:
        return {}
    return known_parameters(handlers) | {_ABANDONED: ticks_of(abandoned_seconds)}


def _has(handlers: Handlers | None, attempt: ExpiredAttempt) -> bool:
    return handlers is None or (attempt.handler, attempt.handler_version) in handlers


def _lock_expired(ground: Ground, database: Database, picky: bool) -> Select[*tuple[Any, ...]]:
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
    chosen = [_may_be_decided(ground)] if picky else []
    return (
        read_by(running, ground.job, LEASED_INDEX)
        .where(columns.lease_expires_ticks <= unforeseen(ground.clock.now_ticks()), *chosen)
        .order_by(columns.lease_expires_ticks)
        .limit(at_most(bindparam(_LIMIT, type_=Integer())))
        .with_for_update(skip_locked=database.skip_locked)
    )


def _may_be_decided(ground: Ground) -> ColumnElement[bool]:
    """Whether it can be said what becomes of a job: its handler is known, or does not matter (any more)."""
    columns = ground.job.c
    used_up = columns.attempt_count - columns.forgiven_count >= columns.max_attempts
    long_ago = ground.clock.now_ticks() - bindparam(_ABANDONED, type_=BigInteger())
    abandoned = columns.lease_expires_ticks < unforeseen(type_coerce(long_ago, InstantTicks()))
    return unestimated(or_(is_known(ground.job), columns.cancel_requested == 1, used_up, abandoned))


def _expired_attempt(row: Row[*tuple[Any, ...]]) -> ExpiredAttempt:
    scope_hash, job_id, ordinal, token, handler, handler_version, owner = row
    return ExpiredAttempt(
        reference=AttemptReference(scope_hash, job_id, ordinal, token),
        handler=handler,
        handler_version=handler_version,
        owner=owner,
    )
