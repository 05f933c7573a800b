"""Reads what failed from both stores as one list."""

from dataclasses import fields
from typing import Any, assert_never

from sqlalchemy import Connection

from inbox.receipt import ReceiptKey
from inbox.state import ReceiptState
from inbox.store import InboxStore
from inbox.view import FailedReceiptCursor, FailedReceiptFilter, ReceiptRecord
from outbox.failure import FailedEvent, FailedEventCursor, FailedEventFilter, OutboxRecord
from outbox.state import OutboxState
from outbox.store import OutboxStore
from relay.admin.failed_message import FailedDetail, FailedFilter, FailedMessage, Positions
from relay.admin.failure_id import FailureId, FailureKind
from relay.admin.operation import Operation, OperationLog
from uow.failure_filter import FailureFilter


class FailedList:
    """Outbox and inbox failures side by side; sync, one or two statements each."""

    def __init__(self, *, outbox: OutboxStore, inbox: InboxStore, operations: OperationLog) -> None:
        self._outbox = outbox
        self._inbox = inbox
        self._operations = operations

    def page(
        self, connection: Connection, wanted: FailedFilter, positions: Positions, limit: int
    ) -> list[FailedMessage]:
        """Up to `limit` failures after these positions, the latest first."""
        found: list[FailedMessage] = []
        if wanted.includes(FailureKind.OUTBOX):
            found += self._events(connection, wanted, positions, limit)
        if wanted.includes(FailureKind.INBOX):
            found += self._receipts(connection, wanted, positions, limit)
        # Stable: the order that each store gives to equal moments stays, which its cursor relies on.
        found.sort(key=lambda message: message.failed_at, reverse=True)
        return found[:limit]

    def count(self, connection: Connection, wanted: FailedFilter) -> int:
        """How many failures match; one statement for each side."""
        count = 0
        if wanted.includes(FailureKind.OUTBOX):
            count += self._outbox.count_failed(connection, _of_events(wanted))
        if wanted.includes(FailureKind.INBOX):
            count += self._inbox.count_failed(connection, _of_receipts(wanted))
        return count

    def detail(self, connection: Connection, failure: FailureId) -> FailedDetail | None:
        """One message as it stands, or None."""
        match failure.kind:
            case FailureKind.OUTBOX:
                event = self._outbox.find(connection, failure.message_id)
                if event is None:
                    return None
                return _event_detail(failure, event, self._operations_on(connection, failure))
            case FailureKind.INBOX:
                receipt = self._inbox.find(connection, ReceiptKey(failure.message_id, failure.consumer or ""))
                if receipt is None:
                    return None
                return _receipt_detail(failure, receipt, self._operations_on(connection, failure))
            case _:
                assert_never(failure.kind)

    def operations(self, connection: Connection, limit: int) -> list[Operation]:
        """The newest operations on whatever."""
        return self._operations.recent(connection, limit=limit)

    def _events(
        self, connection: Connection, wanted: FailedFilter, positions: Positions, limit: int
    ) -> list[FailedMessage]:
        place = positions.outbox
        cursor = FailedEventCursor(place.failed_at, place.message_id) if place else None
        events = self._outbox.list_failed(connection, _of_events(wanted), cursor=cursor, limit=limit)
        return [_failed_event(event) for event in events]

    def _receipts(
        self, connection: Connection, wanted: FailedFilter, positions: Positions, limit: int
    ) -> list[FailedMessage]:
        place = positions.inbox
        cursor = FailedReceiptCursor(place.failed_at, place.message_id, place.consumer) if place else None
        receipts = self._inbox.list_failed(connection, _of_receipts(wanted), cursor=cursor, limit=limit)
        return [_failed_receipt(receipt) for receipt in receipts]

    def _operations_on(self, connection: Connection, failure: FailureId) -> tuple[Operation, ...]:
        all_of_message = self._operations.recent(connection, message_id=failure.message_id)
        return tuple(
            operation
            for operation in all_of_message
            if operation.queue == failure.kind.value and operation.consumer == failure.consumer
        )


def _common(wanted: FailedFilter) -> dict[str, Any]:
    return {field.name: getattr(wanted, field.name) for field in fields(FailureFilter)}


def _of_events(wanted: FailedFilter) -> FailedEventFilter:
    return FailedEventFilter(**_common(wanted))


def _of_receipts(wanted: FailedFilter) -> FailedReceiptFilter:
    return FailedReceiptFilter(consumer=wanted.consumer, **_common(wanted))


def _failed_event(event: FailedEvent) -> FailedMessage:
    return FailedMessage(
        failure_id=str(FailureId.outbox(event.event_id)),
        kind=FailureKind.OUTBOX,
        message_id=event.event_id,
        contract_name=event.contract_name,
        contract_version=event.contract_version,
        consumer=None,
        failed_at=event.failed_at,
        attempts=event.attempts,
        error_code=event.error_code,
    )


def _failed_receipt(receipt: ReceiptRecord) -> FailedMessage:
    return FailedMessage(
        failure_id=str(FailureId.inbox(receipt.message_id, receipt.consumer)),
        kind=FailureKind.INBOX,
        message_id=receipt.message_id,
        contract_name=receipt.contract_name,
        contract_version=receipt.contract_version,
        consumer=receipt.consumer,
        failed_at=receipt.completed_at or receipt.received_at,
        attempts=receipt.attempt_count,
        error_code=receipt.error_code,
    )


def _event_detail(failure: FailureId, event: OutboxRecord, operations: tuple[Operation, ...]) -> FailedDetail:
    failed = event.state in {OutboxState.DEAD_LETTERED, OutboxState.DISCARDED}
    return FailedDetail(
        failure_id=str(failure),
        kind=failure.kind,
        message_id=event.message.id,
        contract_name=event.message.contract_name,
        contract_version=event.message.contract_version,
        consumer=None,
        state=event.state.value,
        attempts=event.attempts,
        created_at=event.created_at,
        failed_at=event.completed_at if failed else None,
        next_attempt_at=event.next_attempt_at,
        error_code=event.error_code,
        error_detail=event.error_detail,
        operations=operations,
    )


def _receipt_detail(
    failure: FailureId, receipt: ReceiptRecord, operations: tuple[Operation, ...]
) -> FailedDetail:
    failed = receipt.state in {ReceiptState.DEAD_LETTERED, ReceiptState.DISCARDED}
    return FailedDetail(
        failure_id=str(failure),
        kind=failure.kind,
        message_id=receipt.message_id,
        contract_name=receipt.contract_name,
        contract_version=receipt.contract_version,
        consumer=receipt.consumer,
        state=receipt.state.value,
        attempts=receipt.attempt_count,
        created_at=receipt.received_at,
        failed_at=receipt.completed_at if failed else None,
        next_attempt_at=receipt.next_attempt_at,
        error_code=receipt.error_code,
        error_detail=receipt.error_detail,
        operations=operations,
    )
