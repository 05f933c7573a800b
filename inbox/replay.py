"""What operators do to receipts that were given up."""

from typing import Any

from sqlalchemy import Connection, select, update

from inbox.ground import Ground
from inbox.receipt import ReceiptKey
from inbox.row import has_key, message_columns, message_of
from inbox.state import ReceiptState
from inbox.view import OperationAnswer, ResetReport


def reset(connection: Connection, ground: Ground, key: ReceiptKey) -> ResetReport:
    """Begin anew with a failed or dead-lettered receipt. See InboxStore.reset."""
    answer = _change(
        connection,
        ground,
        key,
        (ReceiptState.FAILED, ReceiptState.DEAD_LETTERED),
        state=ReceiptState.RECEIVED.value,
        lease_token=None,
        attempt_count=0,
        claim_count=0,
        next_attempt_at=ground.clock.now(),
        completed_at=None,
    )
    if answer is not OperationAnswer.ACCEPTED:
        return ResetReport(answer)
    message = select(*message_columns(ground.table)).where(has_key(connection, ground.table, [key]))
    return ResetReport(answer, message_of(connection.execute(message).mappings().one()))


def discard(connection: Connection, ground: Ground, key: ReceiptKey) -> OperationAnswer:
    """Resolve a dead-lettered receipt without running it. See InboxStore.discard."""
    return _change(
        connection,
        ground,
        key,
        (ReceiptState.DEAD_LETTERED,),
        state=ReceiptState.DISCARDED.value,
        completed_at=ground.clock.now(),
    )


def _change(
    connection: Connection,
    ground: Ground,
    key: ReceiptKey,
    expected: tuple[ReceiptState, ...],
    **values: Any,
) -> OperationAnswer:
    table, is_it = ground.table, has_key(connection, ground.table, [key])
    change = update(table).where(is_it, table.c.state.in_([state.value for state in expected]))
    if connection.execute(change.values(values)).rowcount == 1:
        return OperationAnswer.ACCEPTED
    there = connection.execute(select(table.c.state).where(is_it)).one_or_none()
    return OperationAnswer.INVALID_STATE if there else OperationAnswer.NOT_FOUND
