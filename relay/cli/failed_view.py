"""How failed messages look, to people and to programs."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from relay.admin.failed_message import FailedDetail, FailedFilter, FailedMessage, FailedPage
from relay.admin.failure_id import FailureId, FailureKind
from relay.admin.operation import Operation
from relay.cli.screen import Screen, as_rows
from uow.suggestion import did_you_mean


def none_found(wanted: FailedFilter, consumers: Collection[str]) -> str:
    """Why a list is empty: nothing failed, or nothing that the filter takes; a strange consumer is named."""
    if wanted == FailedFilter():
        return "Nothing has failed."
    name = wanted.consumer
    if name is None or name in consumers:
        return "No failed message matches."
    return f"No failed message matches: this App has no consumer {name!r}{did_you_mean(name, consumers)}"


def show_page(page: FailedPage, screen: Screen, *, nothing: str = "Nothing has failed.") -> None:
    """One page of the list; `nothing` is said of an empty one."""
    screen.document(
        {"failed": [message_document(each) for each in page.messages], "next_cursor": page.next_cursor}
    )
    if not page.messages:
        screen.line(nothing, style="green")
        return
    screen.table(
        ["Failure id", "Contract", "Failed at", "Attempts", "Error"],
        [
            (
                each.failure_id,
                f"{each.contract_name} v{each.contract_version}",
                moment_text(each.failed_at),
                each.attempts,
                each.error_code,
            )
            for each in page.messages
        ],
        whole=["Failure id", "Failed at"],
    )
    if page.next_cursor is not None:
        screen.note(f"There are more: --cursor {page.next_cursor}")


def show_detail(detail: FailedDetail, screen: Screen) -> None:
    """One message and its history."""
    screen.document(_detail_document(detail))
    rows = {
        "Failure id": detail.failure_id,
        "Message id": detail.message_id.hex,
        "Contract": f"{detail.contract_name} v{detail.contract_version}",
        "Consumer": detail.consumer,
        "State": detail.state,
        "Attempts": detail.attempts,
        "Created at": moment_text(detail.created_at),
        "Failed at": moment_text(detail.failed_at),
        "Next attempt at": moment_text(detail.next_attempt_at),
        "Error code": detail.error_code,
        "Error detail": detail.error_detail,
    }
    screen.table(["", ""], as_rows(rows))
    if detail.operations:
        screen.line("")
        screen.table(
            ["Operation", "By", "At", "Result", "Reason"],
            [
                (each.kind.value, each.operator, moment_text(each.occurred_at), each.result.value, _why(each))
                for each in detail.operations
            ],
            whole=["At"],
        )


def show_history(operations: Sequence[Operation], screen: Screen) -> None:
    """What operators did, newest first."""
    screen.document({"operations": [_operation_document(each) for each in operations]})
    screen.table(
        ["Operation", "On", "Messages", "By", "At", "Result", "Reason"],
        [
            (
                each.kind.value,
                _target(each),
                each.message_count,
                each.operator,
                moment_text(each.occurred_at),
                each.result.value,
                _why(each),
            )
            for each in operations
        ],
        whole=["On", "At"],
    )
    if not operations:
        screen.line("Nothing has been done yet.")


def _target(operation: Operation) -> str:
    """A failure id, or the dead queue of a consumer."""
    if operation.message_id is None:
        return f"dead queue of {operation.consumer}"
    return str(FailureId(FailureKind(operation.queue), operation.message_id, operation.consumer))


def _operation_document(operation: Operation) -> dict[str, Any]:
    return {
        "at": operation.occurred_at,
        "operation": operation.kind.value,
        "on": _target(operation),
        "messages": operation.message_count,
        "operator": operation.operator,
        "result": operation.result.value,
        "reason": operation.reason,
        "detail": operation.detail,
    }


def _why(operation: Operation) -> str | None:
    return operation.reason or operation.detail


def _detail_document(detail: FailedDetail) -> dict[str, Any]:
    return {
        "failure_id": detail.failure_id,
        "kind": detail.kind.value,
        "message_id": detail.message_id.hex,
        "contract_name": detail.contract_name,
        "contract_version": detail.contract_version,
        "consumer": detail.consumer,
        "state": detail.state,
        "attempts": detail.attempts,
        "created_at": detail.created_at,
        "failed_at": detail.failed_at,
        "next_attempt_at": detail.next_attempt_at,
        "error_code": detail.error_code,
        "error_detail": detail.error_detail,
        "operations": [_operation_document(each) for each in detail.operations],
    }


def message_document(message: FailedMessage) -> dict[str, Any]:
    """One failed message for programs."""
    return {
        "failure_id": message.failure_id,
        "kind": message.kind.value,
        "message_id": message.message_id.hex,
        "contract_name": message.contract_name,
        "contract_version": message.contract_version,
        "consumer": message.consumer,
        "failed_at": message.failed_at,
        "attempts": message.attempts,
        "error_code": message.error_code,
    }


def moment_text(moment: datetime | None) -> str | None:
    """In UTC to the second."""
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M:%SZ}"
