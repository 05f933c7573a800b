"""One operation on one failed message, inside one transaction, with its record."""

from typing import assert_never

from sqlalchemy import Connection

from inbox.receipt import ReceiptKey
from inbox.store import InboxStore
from outbox.errors import EventConflictError
from outbox.store import OutboxStore
from relay.admin.failed_message import OperationReport
from relay.admin.failure_id import FailureId, FailureKind
from relay.admin.operation import Operation, OperationKind, OperationLog, OperationResult
from uow.contracts import Contracts, DecodeError
from uow.message import Message
from uow.text import clean_text

_DETAIL_UNITS = 1000


class FailedSteps:
    """Replay and discard as sync steps; each decides, changes and records in the caller's transaction.

    Of two operators at once only one changes the row: the stores' updates carry the expected state.
    """

    def __init__(
        self, *, contracts: Contracts, outbox: OutboxStore, inbox: InboxStore, operations: OperationLog
    ) -> None:
        self._contracts = contracts
        self._outbox = outbox
        self._inbox = inbox
        self._operations = operations

    def replay(self, connection: Connection, failure: FailureId, *, operator: str) -> OperationReport:
        """Let the message be published, or handled, again: same identity, same payload."""
        match failure.kind:
            case FailureKind.OUTBOX:
                report = self._replay_event(connection, failure)
            case FailureKind.INBOX:
                report = self._replay_receipt(connection, failure)
            case _:
                assert_never(failure.kind)
        self._record(connection, OperationKind.REPLAY, failure, report, operator=operator, reason=None)
        return report

    def discard(
        self, connection: Connection, failure: FailureId, *, operator: str, reason: str
    ) -> OperationReport:
        """Resolve the message without running it; its row stays, its ordering key goes on."""
        match failure.kind:
            case FailureKind.OUTBOX:
                answer = self._outbox.discard(connection, [failure.message_id])[failure.message_id].value
            case FailureKind.INBOX:
                answer = self._inbox.discard(connection, _receipt_key(failure)).value
            case _:
                assert_never(failure.kind)
        report = OperationReport(failure_id=str(failure), result=OperationResult(answer))
        self._record(connection, OperationKind.DISCARD, failure, report, operator=operator, reason=reason)
        return report

    def _replay_event(self, connection: Connection, failure: FailureId) -> OperationReport:
        record = self._outbox.find(connection, failure.message_id)
        if record is None:
            return OperationReport(failure_id=str(failure), result=OperationResult.NOT_FOUND)
        if fault := self._fault(record.message):
            return OperationReport(failure_id=str(failure), result=OperationResult.UNREADABLE, detail=fault)
        answer = self._outbox.replay(connection, [failure.message_id])[failure.message_id]
        return OperationReport(failure_id=str(failure), result=OperationResult(answer.value))

    def _replay_receipt(self, connection: Connection, failure: FailureId) -> OperationReport:
        # The store gives the message out with the reset; what proves unreadable is undone alone, so that
        # the refusal can still be recorded in this transaction.
        attempt = connection.begin_nested()
        reset = self._inbox.reset(connection, _receipt_key(failure))
        result, detail = OperationResult(reset.answer.value), None
        if reset.message is not None:
            if fault := self._fault(reset.message):
                result, detail = OperationResult.UNREADABLE, fault
            else:
                try:
                    self._outbox.schedule_again(connection, reset.message)
                except EventConflictError as error:
                    result, detail = OperationResult.INVALID_STATE, str(error)
        if result is OperationResult.ACCEPTED:
            attempt.commit()
        else:
            attempt.rollback()
        return OperationReport(failure_id=str(failure), result=result, detail=detail)

    def _fault(self, message: Message) -> str | None:
        try:
            self._contracts.decode(message)
        except DecodeError as error:
            return str(error)
        return None

    def _record(
        self,
        connection: Connection,
        kind: OperationKind,
        failure: FailureId,
        report: OperationReport,
        *,
        operator: str,
        reason: str | None,
    ) -> None:
        operation = Operation(
            kind=kind,
            result=report.result,
            operator=operator,
            queue=failure.kind.value,
            message_id=failure.message_id,
            consumer=failure.consumer,
            reason=reason,
            detail=clean_text(report.detail, units=_DETAIL_UNITS) if report.detail else None,
        )
        self._operations.record(connection, [operation])


def _receipt_key(failure: FailureId) -> ReceiptKey:
    return ReceiptKey(failure.message_id, failure.consumer or "")
