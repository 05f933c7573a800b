"""Looking after running attempts: renewing their leases and asking whether they should go on."""

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import Connection, Row, Select, Update, select, update

from jobs.answer import ExecutionStatus
from jobs.ground import REFERENCE_COLUMNS, Ground, reference_rows, same_key
from jobs.key import AttemptReference
from uow.sql.chosen import chosen_by
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows
from uow.sql.planner import unforeseen
from uow.sql.row_address import row_address

Statuses: TypeAlias = dict[AttemptReference, ExecutionStatus]
_Marks: TypeAlias = Sequence[Row[UUID, int]]
"""The token of an attempt that is held, and whether a cancellation is asked for."""


def renew(connection: Connection, ground: Ground, references: Collection[AttemptReference]) -> Statuses:
    """See JobStore.renew."""
    asked = list(dict.fromkeys(references))
    if not asked:
        return {}
    returning = database_of(connection).update_returning
    marks = (_renew_returning if returning else _renew_locked)(connection, ground, asked)
    renewed = _active(asked, marks)
    left = [reference for reference in asked if reference not in renewed]
    if left:
        renewed |= execution_status_many(connection, ground, left)
    return {reference: renewed[reference] for reference in asked}


def execution_status_many(
    connection: Connection, ground: Ground, references: Collection[AttemptReference]
) -> Statuses:
    """See JobStore.execution_status_many."""
    asked = list(dict.fromkeys(references))
    if not asked:
        return {}
    given, held = ground.built(_held, database_of(connection))
    marks = connection.execute(held, given.parameters(reference_rows(asked))).all()
    active = _active(asked, marks)
    return {reference: active.get(reference, ExecutionStatus.ENDED) for reference in asked}


def prolong(connection: Connection, ground: Ground, references: Collection[AttemptReference]) -> None:
    """Let the leases of these, which the caller has locked, last from now on, expired or not."""
    given, change = ground.built(_change_given, database_of(connection))
    connection.execute(change, given.parameters(reference_rows(references)))


def _renew_returning(connection: Connection, ground: Ground, references: list[AttemptReference]) -> _Marks:
    given, change = ground.built(_change_free, database_of(connection))
    marks: _Marks = connection.execute(change, given.parameters(reference_rows(references))).all()
    return marks


def _renew_locked(connection: Connection, ground: Ground, references: list[AttemptReference]) -> _Marks:
    database = database_of(connection)
    given, locked = ground.built(_lock_free, database)
    answers = connection.execute(locked, given.parameters(reference_rows(references)))
    marks: _Marks = [row for row in answers if row.attempt_token is not None]
    if marks:
        prolong(connection, ground, _active(references, marks))
    return marks


def _held(ground: Ground, database: Database, _: None) -> tuple[Given, Select[UUID, int]]:
    given = given_rows(database, REFERENCE_COLUMNS)
    return given, _marks(ground).join_from(given.source, ground.job, ground.holds(ground.job, given))


def _change_free(ground: Ground, database: Database, _: None) -> tuple[Given, Any]:
    """Renew those that are ours and that nobody has locked.

    A row that is locked is being cancelled or ended at this moment: waiting for that commit could cost all
    the others their lease, so it is left out and then looked at.
    """
    given, job = given_rows(database, REFERENCE_COLUMNS), ground.job
    held = job.alias("held")
    free = (
        select(row_address(held))
        .join_from(given.source, held, ground.holds(held, given))
        .with_for_update(skip_locked=True, of=held)
    )
    change = update(job).where(chosen_by(row_address(job), free)).values(_lease(ground))
    return given, change.returning(*_marks(ground).selected_columns)


def _lock_free(ground: Ground, database: Database, _: None) -> tuple[Given, Select[UUID, int]]:
    """Lock the same, where the change could not say which rows it changed."""
    given = given_rows(database, REFERENCE_COLUMNS)
    ours = given.source.outerjoin(ground.job, ground.holds(ground.job, given))
    return given, _marks(ground).select_from(ours).with_for_update(skip_locked=True)


def _change_given(ground: Ground, database: Database, _: None) -> tuple[Given, Update]:
    given, job = given_rows(database, REFERENCE_COLUMNS), ground.job
    if database.update_returning:
        return given, update(job).where(same_key(job, given.c)).values(_lease(ground))
    joined = given.source.outerjoin(job, same_key(job, given.c))
    return given, update(joined).values({job.c[name]: value for name, value in _lease(ground).items()})


def _marks(ground: Ground) -> Select[UUID, int]:
    return select(ground.job.c.attempt_token, ground.job.c.cancel_requested)


def _lease(ground: Ground) -> dict[str, Any]:
    return {
        "lease_expires_ticks": unforeseen(ground.clock.ticks_after(ground.options.lease_seconds)),
        "heartbeat_ticks": unforeseen(ground.clock.now_ticks()),
    }


def _active(references: Sequence[AttemptReference], marks: _Marks) -> Statuses:
    statuses = {
        token: ExecutionStatus.CANCEL_REQUESTED if cancelled else ExecutionStatus.ACTIVE
        for token, cancelled in marks
    }
    return {each: statuses[each.token] for each in references if each.token in statuses}
