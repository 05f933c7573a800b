"""Claiming due receipts for the inbox's own pump."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, Select, and_, select, union_all

from inbox.chosen import Choice, Columns, choose, update_chosen
from inbox.failure import PROCESS_DIED
from inbox.ground import Ground
from inbox.receipt import AcquiredReceipt, ReceiptKey
from inbox.row import key_columns, message_columns, message_of
from inbox.state import ReceiptState
from inbox.table import DUE_INDEX, LEASED_INDEX
from uow.sql.planner import at_most, unestimated, unforeseen


def claim(
    connection: Connection, ground: Ground, shares: Mapping[str, int], *, limit: int, token: UUID
) -> list[AcquiredReceipt]:
    """Acquire up to `limit` due receipts, at most its share of each consumer. See InboxStore.claim."""
    wanted = {consumer: min(share, limit) for consumer, share in sorted(shares.items())}
    wanted = {consumer: share for consumer, share in wanted.items() if share > 0}
    return (
        _lease(connection, ground, _longest_due(connection, ground, wanted, limit), token) if wanted else []
    )


def claim_suspect(
    connection: Connection, ground: Ground, consumers: Collection[str], *, token: UUID
) -> AcquiredReceipt | None:
    """Acquire the suspect that is due longest. See InboxStore.claim_suspect."""
    columns = ground.table.c
    # A suspect never had a verdict, so its lease expired: one that did not is nobody's to take.
    suspect = and_(
        columns.lease_expires_at <= unforeseen(ground.clock.now()),
        columns.state == ReceiptState.PROCESSING.value,
        columns.claim_count >= ground.options.isolate_after,
        columns.consumer.in_(sorted(consumers)),
    )
    chosen = choose(connection, ground, suspect, index=LEASED_INDEX, skip_locked=True)
    rows = _lease(
        connection, ground, lambda these: chosen(these).order_by(columns.lease_expires_at).limit(1), token
    )
    return rows[0] if rows else None


def bury(
    connection: Connection, ground: Ground, consumer: str, *, max_retry_attempts: int
) -> list[ReceiptKey]:
    """Dead-letter what used up its attempts without a verdict. See InboxStore.bury."""
    columns = ground.table.c
    spent = and_(
        columns.lease_expires_at <= unforeseen(ground.clock.now()),
        columns.state == ReceiptState.PROCESSING.value,
        columns.attempt_count > max_retry_attempts,
        columns.consumer == consumer,
    )
    rows = update_chosen(
        connection,
        ground.table,
        choose(connection, ground, spent, index=LEASED_INDEX, skip_locked=True),
        values={
            "state": ReceiptState.DEAD_LETTERED.value,
            "lease_expires_at": None,
            "next_attempt_at": None,
            "completed_at": ground.clock.now(),
            "claim_count": 0,
            "error_code": PROCESS_DIED.code.value,
            "error_detail": PROCESS_DIED.detail,
        },
        returning=key_columns(ground.table),
    )
    return [ReceiptKey(row["message_id"], row["consumer"]) for row in rows]


def _lease(connection: Connection, ground: Ground, choice: Choice, token: UUID) -> list[AcquiredReceipt]:
    columns = ground.table.c
    next_attempt, same = columns.attempt_count + 1, [*message_columns(ground.table), columns.received_at]
    rows = update_chosen(
        connection,
        ground.table,
        choice,
        values=ground.lease(token) | {"attempt_count": next_attempt, "claim_count": columns.claim_count + 1},
        returning=[*same, columns.attempt_count],
        before=[*same, next_attempt.label("attempt_count")],
    )
    ordered = sorted(rows, key=lambda row: (row["received_at"], row["message_id"]))
    return [_receipt(row, token) for row in ordered]


def _longest_due(connection: Connection, ground: Ground, wanted: Mapping[str, int], limit: int) -> Choice:
    """The longest due of each consumer by its own range of the index, and of those the longest due."""
    columns = ground.table.c

    def of_consumer(consumer: str, these: Columns) -> Select[*tuple[Any, ...]]:
        due = and_(
            columns.consumer == consumer,
            ground.due(),
            unestimated(columns.claim_count < ground.options.isolate_after),
        )
        first = choose(connection, ground, due, index=DUE_INDEX, skip_locked=True)(these)
        return first.order_by(columns.next_attempt_at, columns.message_id).limit(at_most(wanted[consumer]))

    def of_all(these: Columns) -> Select[*tuple[Any, ...]]:
        if len(wanted) == 1:
            return of_consumer(next(iter(wanted)), these)
        order = [columns.next_attempt_at.label("by_time"), columns.message_id.label("by_message")]
        arms = [of_consumer(consumer, [*these, *order]).subquery() for consumer in wanted]
        due = union_all(*(select(arm) for arm in arms)).subquery("due")
        asked = [due.c[column.name] for column in these]
        return select(*asked).order_by(due.c.by_time, due.c.by_message).limit(limit)

    return of_all


def _receipt(row: RowMapping, token: UUID) -> AcquiredReceipt:
    return AcquiredReceipt(
        message=message_of(row), consumer=row["consumer"], token=token, attempt=row["attempt_count"]
    )
