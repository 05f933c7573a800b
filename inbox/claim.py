"""Claiming due receipts for the inbox's own pump."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, select, union_all

from inbox.chosen import choose, update_chosen
from inbox.error_code import ErrorCode
from inbox.ground import Ground
from inbox.receipt import AcquiredReceipt, ReceiptKey
from inbox.row import key_columns, message_columns, message_of
from inbox.state import ReceiptState


def claim(
    connection: Connection,
    ground: Ground,
    shares: Mapping[str, int],
    *,
    limit: int,
    token: UUID,
    suspects: bool = False,
) -> list[AcquiredReceipt]:
    """Acquire up to `limit` receipts, at most its share of each consumer. See InboxStore.claim."""
    wanted = {consumer: min(share, limit) for consumer, share in sorted(shares.items())}
    wanted = {consumer: share for consumer, share in wanted.items() if share > 0}
    if not wanted:
        return []
    columns = ground.table.c
    next_attempt, same = columns.attempt_count + 1, [*message_columns(ground.table), columns.received_at]
    rows = update_chosen(
        connection,
        ground.table,
        _longest_due(connection, ground, wanted, limit=limit, suspects=suspects),
        values=ground.lease(token) | {"attempt_count": next_attempt, "claim_count": columns.claim_count + 1},
        returning=[*same, columns.attempt_count],
        before=[*same, next_attempt.label("attempt_count")],
    )
    ordered = sorted(rows, key=lambda row: (row["received_at"], row["message_id"]))
    return [_receipt(row, token) for row in ordered]


def bury(
    connection: Connection, ground: Ground, consumer: str, *, max_retry_attempts: int
) -> list[ReceiptKey]:
    """Dead-letter what used up its attempts without a verdict. See InboxStore.bury."""
    columns = ground.table.c
    spent = and_(
        columns.consumer == consumer,
        ground.due(),
        columns.state == ReceiptState.PROCESSING.value,
        columns.attempt_count > max_retry_attempts,
    )
    rows = update_chosen(
        connection,
        ground.table,
        choose(connection, ground, spent, skip_locked=True),
        values={
            "state": ReceiptState.DEAD_LETTERED.value,
            "lease_expires_at": None,
            "next_attempt_at": None,
            "completed_at": ground.clock.now(),
            "claim_count": 0,
            "error_code": ErrorCode.PROCESS_DIED.value,
            "error_detail": "the process died, or lost the receipt, before any of the last attempts ended",
        },
        returning=list(key_columns(ground.table)),
    )
    return [ReceiptKey(row["message_id"], row["consumer"]) for row in rows]


def _longest_due(
    connection: Connection, ground: Ground, wanted: Mapping[str, int], *, limit: int, suspects: bool
) -> Select[*tuple[Any, ...]]:
    """The longest due of each consumer by its own range of the index, and of those the longest due."""
    columns = ground.table.c
    arms = [
        choose(connection, ground, _is_due(ground, consumer, suspects=suspects), skip_locked=True)
        .add_columns(columns.next_attempt_at)
        .order_by(columns.next_attempt_at, columns.message_id)
        .limit(share)
        for consumer, share in wanted.items()
    ]
    if len(arms) == 1:
        return arms[0]
    due = union_all(*(select(arm.subquery()) for arm in arms)).subquery("due")
    ordered = select(due.c.message_id, due.c.consumer).order_by(due.c.next_attempt_at, due.c.message_id)
    return ordered.limit(limit)


def _is_due(ground: Ground, consumer: str, *, suspects: bool) -> ColumnElement[bool]:
    columns, isolate_after = ground.table.c, ground.options.isolate_after
    kind = columns.claim_count >= isolate_after if suspects else columns.claim_count < isolate_after
    return and_(columns.consumer == consumer, ground.due(), kind)


def _receipt(row: RowMapping, token: UUID) -> AcquiredReceipt:
    return AcquiredReceipt(
        message=message_of(row), consumer=row["consumer"], token=token, attempt=row["attempt_count"]
    )
