"""Ending an attempt: each verb one update that asks for token, state and unexpired lease."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, String, Update, cast, func, select, update

from inbox.ground import Ground
from inbox.receipt import ReceiptLease
from inbox.row import has_key
from inbox.state import ReceiptState
from inbox.view import LeaseFate
from uow.sql.dialect import database_of


@dataclass(frozen=True, slots=True)
class Completion:
    """A receipt was completed. `transaction_id`: the running transaction's, where the database has such."""

    transaction_id: str | None


def complete(connection: Connection, ground: Ground, lease: ReceiptLease) -> Completion | None:
    """Processed. See InboxStore.complete."""
    finished = _finished(ground, ReceiptState.PROCESSED) | {"error_code": None, "error_detail": None}
    if not database_of(connection).transaction_status:
        return Completion(None) if _settle(connection, ground, lease, finished) else None
    # Asked on the way, so that the unit of work need not ask in a round trip of its own.
    change = _change(connection, ground, lease, finished).returning(cast(func.pg_current_xact_id(), String))
    row = connection.execute(change).one_or_none()
    return None if row is None else Completion(row[0])


def fail(
    connection: Connection,
    ground: Ground,
    lease: ReceiptLease,
    *,
    error_code: str,
    error_detail: str | None,
    delay_seconds: float,
) -> bool:
    """Try again later. See InboxStore.fail."""
    values = {
        "state": ReceiptState.FAILED.value,
        "next_attempt_at": ground.clock.after(delay_seconds),
        "error_code": error_code,
        "error_detail": error_detail,
    }
    return _settle(connection, ground, lease, values)


def dead_letter(
    connection: Connection, ground: Ground, lease: ReceiptLease, *, error_code: str, error_detail: str | None
) -> bool:
    """Give up. See InboxStore.dead_letter."""
    finished = _finished(ground, ReceiptState.DEAD_LETTERED)
    return _settle(
        connection, ground, lease, finished | {"error_code": error_code, "error_detail": error_detail}
    )


def fate(connection: Connection, ground: Ground, lease: ReceiptLease) -> LeaseFate:
    """What became of a lease whose holder does not know. See InboxStore.fate."""
    columns = ground.table.c
    expired = columns.lease_expires_at <= ground.clock.now()
    query = select(columns.state, columns.lease_token, expired.label("expired")).with_for_update()
    row = connection.execute(query.where(has_key(connection, ground.table, [lease.key]))).one_or_none()
    if row is None or row.lease_token != lease.token:
        return LeaseFate.LOST
    match ReceiptState(row.state):
        case ReceiptState.PROCESSED:
            return LeaseFate.COMPLETED
        case ReceiptState.PROCESSING if not row.expired:
            return LeaseFate.HELD
        case _:
            return LeaseFate.LOST


def _finished(ground: Ground, state: ReceiptState) -> dict[str, Any]:
    return {"state": state.value, "completed_at": ground.clock.now(), "next_attempt_at": None}


def _settle(connection: Connection, ground: Ground, lease: ReceiptLease, values: dict[str, Any]) -> bool:
    return connection.execute(_change(connection, ground, lease, values)).rowcount == 1


def _change(connection: Connection, ground: Ground, lease: ReceiptLease, values: dict[str, Any]) -> Update:
    """The change of a held receipt. The token stays, to tell later who ended it; it fences nothing."""
    return (
        update(ground.table)
        .where(ground.held(connection, [lease]))
        .values(**values, lease_expires_at=None, claim_count=0)
    )
