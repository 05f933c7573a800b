"""Looking at rows: the list of failures, and one row."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, func, or_, select

from outbox.failure import FailedEvent, FailedEventCursor, FailedEventFilter, OutboxRecord
from outbox.ground import Ground
from outbox.row import message_columns, message_of
from outbox.state import OutboxState


def list_failed(
    connection: Connection,
    ground: Ground,
    only: FailedEventFilter,
    after: FailedEventCursor | None,
    limit: int,
) -> Sequence[FailedEvent]:
    """See OutboxStore.list_failed."""
    columns = ground.table.c
    statement = (
        select(
            columns.event_id,
            columns.contract_name,
            columns.contract_version,
            columns.completed_at.label("failed_at"),
            (columns.failure_count + columns.claim_count).label("attempts"),
            columns.error_code,
            columns.error_detail,
        )
        .where(*_matching(ground, only))
        .order_by(columns.completed_at.desc(), columns.event_id.desc())
        .limit(limit)
    )
    if after is not None:
        # Not a comparison of row values: MariaDB does not search an index with one.
        statement = statement.where(
            columns.completed_at <= after.failed_at,
            or_(columns.completed_at < after.failed_at, columns.event_id < after.event_id),
        )
    return [FailedEvent(**row) for row in connection.execute(statement).mappings()]


def count_failed(connection: Connection, ground: Ground, only: FailedEventFilter) -> int:
    """See OutboxStore.count_failed."""
    statement = select(func.count()).select_from(ground.table).where(*_matching(ground, only))
    return connection.execute(statement).scalar_one()


def find(connection: Connection, ground: Ground, event_id: UUID) -> OutboxRecord | None:
    """See OutboxStore.find."""
    columns = ground.table.c
    row = connection.execute(
        select(
            columns.sequence,
            columns.state,
            (columns.failure_count + columns.claim_count).label("attempts"),
            columns.created_at,
            columns.completed_at,
            columns.next_attempt_at,
            columns.lease_expires_at,
            columns.error_code,
            columns.error_detail,
            *message_columns(ground.table),
        ).where(columns.event_id == event_id)
    ).one_or_none()
    if row is None:
        return None
    return OutboxRecord(
        sequence=row.sequence,
        message=message_of(row),
        state=OutboxState(row.state),
        attempts=row.attempts,
        created_at=row.created_at,
        completed_at=row.completed_at,
        next_attempt_at=row.next_attempt_at,
        lease_expires_at=row.lease_expires_at,
        error_code=row.error_code,
        error_detail=row.error_detail,
    )


def _matching(ground: Ground, only: FailedEventFilter) -> list[ColumnElement[bool]]:
    columns = ground.table.c
    conditions = [columns.state == OutboxState.DEAD_LETTERED.value, columns.completed_at.is_not(None)]
    if only.contract_name is not None:
        conditions.append(columns.contract_name == only.contract_name)
    if only.contract_version is not None:
        conditions.append(columns.contract_version == only.contract_version)
    if only.error_code is not None:
        conditions.append(columns.error_code == only.error_code)
    if only.failed_from is not None:
        conditions.append(columns.completed_at >= only.failed_from)
    if only.failed_before is not None:
        conditions.append(columns.completed_at < only.failed_before)
    return conditions
