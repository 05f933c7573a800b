"""Acquiring the receipts of prefetched deliveries."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, RowMapping, case, null, select

from inbox.acquire_insert import insert_receipts
from inbox.acquisition import AcquireStatus, Acquisition
from inbox.ground import Ground
from inbox.receipt import AcquiredReceipt
from inbox.row import CONTENT_FIELDS
from inbox.state import ReceiptState
from uow.message import Message


def acquire(
    connection: Connection, ground: Ground, *, consumer: str, messages: Sequence[Message], token: UUID
) -> list[Acquisition]:
    """One answer per message, in their order. See InboxStore.acquire."""
    first: dict[UUID, Message] = {}
    for message in messages:
        first.setdefault(message.id, message)
    if not first:
        return []
    # Sorted, so that two who acquire the same messages lock them in one order and never deadlock.
    distinct = [first[each] for each in sorted(first)]
    attempts = insert_receipts(connection, ground, consumer=consumer, messages=distinct, token=token)
    answers = {
        message.id: _acquired(message, consumer, token, attempts[message.id])
        for message in distinct
        if message.id in attempts
    }
    others = [message for message in distinct if message.id not in attempts]
    if others:
        answers |= _look_at(connection, ground, consumer=consumer, messages=others, token=token)
    told: set[UUID] = set()
    result: list[Acquisition] = []
    for message in messages:
        answer = answers[message.id]
        result.append(_repeated(message, first[message.id], answer) if message.id in told else answer)
        told.add(message.id)
    return result


def _look_at(
    connection: Connection, ground: Ground, *, consumer: str, messages: Sequence[Message], token: UUID
) -> dict[UUID, Acquisition]:
    columns = ground.table.c
    payload = case((columns.lease_token == token, null()), else_=columns.payload).label("payload")
    query = select(
        columns.message_id,
        columns.state,
        columns.lease_token,
        columns.attempt_count,
        (columns.claim_count >= ground.options.isolate_after).label("suspect"),
        ground.due().label("due"),
        *(payload if field == "payload" else columns[field] for field in CONTENT_FIELDS),
    ).where(columns.consumer == consumer, columns.message_id.in_([message.id for message in messages]))
    rows = {row["message_id"]: row for row in connection.execute(query).mappings()}
    return {
        message.id: _classify(message, rows.get(message.id), consumer=consumer, token=token)
        for message in messages
    }


def _classify(message: Message, row: RowMapping | None, *, consumer: str, token: UUID) -> Acquisition:
    if row is None:  # deleted by the retention since the insert met it; the next try stores it anew
        return Acquisition(AcquireStatus.BUSY)
    state = ReceiptState(row["state"])
    if state is ReceiptState.PROCESSING and row["lease_token"] == token:
        return _acquired(message, consumer, token, row["attempt_count"])
    if any(row[field] != getattr(message, field) for field in CONTENT_FIELDS):
        return Acquisition(AcquireStatus.CONFLICT)
    return Acquisition(_status(state, due=bool(row["due"]), suspect=bool(row["suspect"])))


def _acquired(message: Message, consumer: str, token: UUID, attempt: int) -> Acquisition:
    receipt = AcquiredReceipt(message=message, consumer=consumer, token=token, attempt=attempt)
    return Acquisition(AcquireStatus.ACQUIRED, receipt)


def _status(state: ReceiptState, *, due: bool, suspect: bool) -> AcquireStatus:
    match state:
        case ReceiptState.PROCESSED | ReceiptState.DISCARDED:
            return AcquireStatus.ALREADY_PROCESSED
        case ReceiptState.DEAD_LETTERED:
            return AcquireStatus.DEAD_LETTERED
        case ReceiptState.PROCESSING if not due:
            return AcquireStatus.BUSY
        case ReceiptState.RECEIVED | ReceiptState.FAILED | ReceiptState.PROCESSING:
            # Due and no suspect: given back by its holder since the insert met it; ask again.
            return AcquireStatus.BUSY if due and not suspect else AcquireStatus.NOT_DUE


def _repeated(message: Message, first: Message, answer: Acquisition) -> Acquisition:
    """The answer to a message whose id came before in the same call."""
    conflict = answer.status is AcquireStatus.CONFLICT
    if message.same_content(first):
        return Acquisition(AcquireStatus.BUSY) if answer.receipt else answer
    # Which of the two equals what is stored is known only when the first one does.
    return Acquisition(AcquireStatus.BUSY if conflict else AcquireStatus.CONFLICT)
