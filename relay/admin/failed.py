"""Failed messages: list, find, replay, discard. The same functions stand behind Python and the CLI."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.store import InboxStore
from outbox.store import OutboxStore
from relay.admin.failed_list import FailedList
from relay.admin.failed_message import (
    BulkProgress,
    FailedDetail,
    FailedFilter,
    FailedMessage,
    FailedPage,
    OperationReport,
    Positions,
)
from relay.admin.failed_step import FailedSteps
from relay.admin.failure_id import FailureId
from relay.admin.operation import Operation, OperationLog, OperationResult
from uow.contracts import Contracts
from uow.sql.sqlite import BEGIN_OPTION
from uow.sql.step import run_step
from uow.text import check_text

LIST_LIMIT: Final = 1000
_OPERATOR_UNITS: Final = 200
_REASON_UNITS: Final = 1000


class FailedMessages:
    """What operators do about messages that were given up. Payloads are never shown and never changed.

    Each replay or discard is one transaction that also holds its record: who, when, what, with what result.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        *,
        contracts: Contracts,
        outbox: OutboxStore,
        inbox: InboxStore,
        operations: OperationLog,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._reading = engine.execution_options(**{BEGIN_OPTION: "DEFERRED"})
        self._list = FailedList(outbox=outbox, inbox=inbox, operations=operations)
        self._steps = FailedSteps(contracts=contracts, outbox=outbox, inbox=inbox, operations=operations)
        self._wake = wake

    async def list(
        self,
        filter: FailedFilter | None = None,  # noqa: A002 - the word of the field
        *,
        cursor: str | None = None,
        limit: int = 100,
    ) -> FailedPage:
        """One page of what was given up, the latest failure first; `limit` is 1 to 1000.

        `cursor` is the `next_cursor` of the page before. Raises ValueError for the limit and
        FailedCursorError for the cursor.
        """
        if not 1 <= limit <= LIST_LIMIT:
            raise ValueError(f"limit must be between 1 and {LIST_LIMIT}, not {limit}")
        wanted, positions = filter or FailedFilter(), Positions.decode(cursor)
        look_at = min(limit + 1, LIST_LIMIT)
        found = await run_step(self._reading, lambda c: self._list.page(c, wanted, positions, look_at))
        page = tuple(found[:limit])
        for message in page:
            positions = positions.after(message)
        more = len(found) > limit or len(found) == LIST_LIMIT
        return FailedPage(messages=page, next_cursor=positions.encode() if more else None)

    async def count(self, filter: FailedFilter | None = None) -> int:  # noqa: A002
        """How many match."""
        wanted = filter or FailedFilter()
        return await run_step(self._reading, lambda c: self._list.count(c, wanted))

    async def find(self, failure_id: str) -> FailedDetail | None:
        """One message as it stands, also when it is no longer failed; None when there is none.

        Raises FailureIdError for a text that is no failure id.
        """
        failure = FailureId.parse(failure_id)
        return await run_step(self._reading, lambda c: self._list.detail(c, failure))

    async def replay(self, failure_id: str, *, operator: str) -> OperationReport:
        """Publish the event again, or reset the receipt and schedule its original event again.

        The answer says accepted, not found, invalid state (someone was first, or it is completed), or
        unreadable: then a migration or an application update must repair it first. Other consumers may see
        the event again; their receipts absorb it. Raises FailureIdError, or TextError for the operator.
        """
        failure, operator = FailureId.parse(failure_id), check_operator(operator)
        report = await run_step(self._engine, lambda c: self._steps.replay(c, failure, operator=operator))
        if report.result is OperationResult.ACCEPTED:
            self._wake()
        return report

    async def replay_many(
        self,
        filter: FailedFilter | None = None,  # noqa: A002 - the word of the field
        *,
        operator: str,
        on_progress: Callable[[BulkProgress], None] = lambda progress: None,
        on_report: Callable[[OperationReport], None] = lambda report: None,
    ) -> BulkProgress:
        """Replay everything that matches now, each message in a transaction of its own.

        What fails again meanwhile is not replayed twice. `on_progress` is called before the first and after
        each message; `on_report` with each answer. When it is cancelled, what was replayed stays replayed.
        """
        wanted = filter or FailedFilter()
        progress = BulkProgress(total=await self.count(wanted))
        on_progress(progress)
        async for message in self._each(wanted):
            report = await self.replay(message.failure_id, operator=operator)
            results = progress.results | {report.result: progress.results.get(report.result, 0) + 1}
            progress = BulkProgress(total=max(progress.total, progress.done + 1), results=results)
            on_report(report)
            on_progress(progress)
        return progress

    async def discard(self, failure_id: str, *, reason: str, operator: str) -> OperationReport:
        """Resolve the message without running it: its row stays, its ordering key goes on.

        Raises FailureIdError, or TextError for a blank or overlong operator or reason.
        """
        failure, operator = FailureId.parse(failure_id), check_operator(operator)
        reason = check_text("reason", reason, units=_REASON_UNITS, blank=False)
        return await run_step(
            self._engine, lambda c: self._steps.discard(c, failure, operator=operator, reason=reason)
        )

    async def operations(self, *, limit: int = 100) -> tuple[Operation, ...]:
        """What operators did to messages and dead queues, the newest first; `limit` is 1 to 1000."""
        if not 1 <= limit <= LIST_LIMIT:
            raise ValueError(f"limit must be between 1 and {LIST_LIMIT}, not {limit}")
        return tuple(await run_step(self._reading, lambda c: self._list.operations(c, limit)))

    async def _each(self, wanted: FailedFilter) -> AsyncIterator[FailedMessage]:
        cursor: str | None = None
        while True:
            page = await self.list(wanted, cursor=cursor, limit=LIST_LIMIT)
            for message in page.messages:
                yield message
            if page.next_cursor is None:
                return
            cursor = page.next_cursor


def check_operator(operator: str) -> str:
    """The name itself: not blank, at most 200 UTF-16 units, no control characters. Raises TextError."""
    return check_text("operator", operator, units=_OPERATOR_UNITS, control=False, blank=False)
