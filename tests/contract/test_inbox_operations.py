"""What operators and housekeeping do to receipts; the same on every database."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from inbox.acquisition import AcquireStatus
from inbox.errors import InboxOptionError
from inbox.receipt import AcquiredReceipt, ReceiptKey
from inbox.state import ReceiptState
from inbox.view import (
    FailedReceiptCursor,
    FailedReceiptFilter,
    InboxCounts,
    OperationAnswer,
    ReceiptRecord,
)
from tests.support.inbox import START, Inbox, message

pytest_plugins = ("tests.support.inbox_fixture",)


async def listed(
    inbox: Inbox,
    chosen: FailedReceiptFilter | None = None,
    *,
    cursor: FailedReceiptCursor | None = None,
    limit: int = 100,
) -> list[ReceiptRecord]:
    return await inbox.step(inbox.store.list_failed, chosen, cursor=cursor, limit=limit)


async def dead(inbox: Inbox, consumer: str = "billing", *, error_code: str = "rejected") -> AcquiredReceipt:
    receipt = await inbox.acquired(consumer, message())
    assert await inbox.dead_letter(receipt, error_code=error_code)
    return receipt


async def test_a_reset_receipt_is_due_at_once_with_its_message_and_no_attempts(inbox: Inbox) -> None:
    one = message('{"n":1}', correlation_id="c-1", traceparent="00-a", tracestate="b=c")
    receipt = await inbox.acquired("billing", one)
    await inbox.dead_letter(receipt)
    report = await inbox.step(inbox.store.reset, receipt.key)
    assert (report.answer, report.message) == (OperationAnswer.ACCEPTED, one)
    (again,) = await inbox.claim("billing")
    assert (again.message, again.attempt) == (one, 1)
    assert not await inbox.complete(receipt), "the token of old fences nothing"
    assert await inbox.complete(again)
    row = await inbox.row(again)
    assert (row["error_code"], row["error_detail"]) == (None, None)


async def test_a_scheduled_retry_can_be_brought_forward(inbox: Inbox) -> None:
    receipt = await inbox.acquired("billing", message())
    await inbox.fail(receipt, delay_seconds=900)
    assert (await inbox.step(inbox.store.reset, receipt.key)).answer is OperationAnswer.ACCEPTED
    assert len(await inbox.claim("billing")) == 1


async def test_only_failed_and_dead_receipts_can_be_reset_and_only_dead_ones_discarded(inbox: Inbox) -> None:
    recorded, running, processed, failed, resolved = (message() for _ in range(5))
    await inbox.step(inbox.store.record, [("billing", recorded)])
    await inbox.acquired("billing", running)
    await inbox.complete(await inbox.acquired("billing", processed))
    await inbox.fail(await inbox.acquired("billing", failed))
    await inbox.dead_letter(await inbox.acquired("billing", resolved))
    assert await inbox.step(inbox.store.discard, ReceiptKey(resolved.id, "billing")) is (
        OperationAnswer.ACCEPTED
    )
    before = await inbox.rows()
    for one in (recorded, running, processed, resolved):
        report = await inbox.step(inbox.store.reset, ReceiptKey(one.id, "billing"))
        assert (report.answer, report.message) == (OperationAnswer.INVALID_STATE, None)
    for one in (recorded, running, processed, failed, resolved):
        answer = await inbox.step(inbox.store.discard, ReceiptKey(one.id, "billing"))
        assert answer is OperationAnswer.INVALID_STATE
    for key in (ReceiptKey(uuid4(), "billing"), ReceiptKey(failed.id, "Billing")):
        assert (await inbox.step(inbox.store.reset, key)).answer is OperationAnswer.NOT_FOUND
        assert await inbox.step(inbox.store.discard, key) is OperationAnswer.NOT_FOUND
    assert await inbox.rows() == before


async def test_of_many_operators_who_replay_at_once_one_is_accepted(inbox: Inbox) -> None:
    receipt = await dead(inbox)
    reports = await asyncio.gather(*(inbox.step(inbox.store.reset, receipt.key) for _ in range(5)))
    answers = sorted(report.answer for report in reports)
    assert answers == [OperationAnswer.ACCEPTED] + [OperationAnswer.INVALID_STATE] * 4


async def test_a_replay_and_a_discard_at_once_do_one_of_both(inbox: Inbox) -> None:
    receipt = await dead(inbox)
    report, answer = await asyncio.gather(
        inbox.step(inbox.store.reset, receipt.key), inbox.step(inbox.store.discard, receipt.key)
    )
    assert {report.answer, answer} == {OperationAnswer.ACCEPTED, OperationAnswer.INVALID_STATE}


async def test_a_discarded_receipt_keeps_its_row_and_its_reason_and_runs_no_more(inbox: Inbox) -> None:
    receipt = await dead(inbox)
    inbox.clock.advance(5)
    assert await inbox.step(inbox.store.discard, receipt.key) is OperationAnswer.ACCEPTED
    record = await inbox.step(inbox.store.find, receipt.key)
    assert record is not None
    assert (record.state, record.error_code) == (ReceiptState.DISCARDED, "rejected")
    assert record.completed_at == inbox.clock.moment
    assert await listed(inbox) == []
    assert await inbox.status("billing", receipt.message) is AcquireStatus.ALREADY_PROCESSED


async def test_find_tells_everything_but_the_payload(inbox: Inbox) -> None:
    receipt = await inbox.acquired("Zoë 😀", message(contract_name="orders.täglich", contract_version=7))
    inbox.clock.advance(1)
    await inbox.step(
        inbox.store.fail, receipt.lease, error_code="timeout", error_detail="too slow 😀", delay_seconds=9
    )
    record = await inbox.step(inbox.store.find, receipt.key)
    assert record == ReceiptRecord(
        message_id=receipt.message.id,
        consumer="Zoë 😀",
        contract_name="orders.täglich",
        contract_version=7,
        state=ReceiptState.FAILED,
        attempt_count=1,
        received_at=START,
        next_attempt_at=START + timedelta(seconds=10),
        completed_at=None,
        error_code="timeout",
        error_detail="too slow 😀",
    )
    assert record.key == receipt.key
    assert await inbox.step(inbox.store.find, ReceiptKey(receipt.message.id, "zoë 😀")) is None


async def test_the_latest_failures_are_listed_first_and_pages_neither_skip_nor_repeat(inbox: Inbox) -> None:
    expected: list[tuple[object, UUID, str]] = []
    for number in range(12):
        receipt = await dead(inbox, "billing" if number % 2 else "shipping")
        expected.append((inbox.clock.moment, receipt.message.id, receipt.consumer))
        if number % 3 == 0:  # several fail at the same moment
            inbox.clock.advance(1)
    one = message()
    for consumer in ("a", "B", "b"):  # one message at several consumers, at the same moment
        await inbox.dead_letter(await inbox.acquired(consumer, one))
        expected.append((inbox.clock.moment, one.id, consumer))
    await inbox.fail(await inbox.acquired("billing", message()))
    await inbox.complete(await inbox.acquired("billing", message()))
    expected.sort(reverse=True)  # type: ignore[arg-type]
    found: list[ReceiptRecord] = []
    cursor = None
    while page := await listed(inbox, cursor=cursor, limit=4):
        found += page
        last = page[-1]
        assert last.completed_at is not None
        cursor = FailedReceiptCursor(last.completed_at, last.message_id, last.consumer)
    assert [(each.completed_at, each.message_id, each.consumer) for each in found] == expected
    assert {each.state for each in found} == {ReceiptState.DEAD_LETTERED}


async def test_each_filter_narrows_the_list(inbox: Inbox) -> None:
    first = await dead(inbox, "Audit", error_code="timeout")
    inbox.clock.advance(60)
    second = await dead(inbox, "audit")
    other = await inbox.acquired("audit", message(contract_name="orders.paid", contract_version=3))
    await inbox.dead_letter(other)

    async def keys(**fields: object) -> set[ReceiptKey]:
        return {record.key for record in await listed(inbox, FailedReceiptFilter(**fields))}  # type: ignore[arg-type]

    assert await keys(consumer="audit") == {second.key, other.key}
    assert await keys(consumer="Audit") == {first.key}
    assert await keys(error_code="timeout") == {first.key}
    assert await keys(contract_name="orders.paid") == {other.key}
    assert await keys(contract_version=1) == {first.key, second.key}
    minute = START + timedelta(seconds=60)
    assert await keys(failed_from=minute) == {second.key, other.key}
    assert await keys(failed_before=minute) == {first.key}
    assert await keys(failed_from=START, failed_before=minute, consumer="audit") == set()


@pytest.mark.parametrize("limit", [0, 1001, -1])
async def test_a_list_limit_out_of_range_is_refused(inbox: Inbox, limit: int) -> None:
    with pytest.raises(InboxOptionError, match=f"limit must be 1 to 1000, not {limit}"):
        await listed(inbox, limit=limit)


async def test_counts_are_of_unfinished_and_dead_receipts_with_zeros(inbox: Inbox) -> None:
    counts = await inbox.step(inbox.store.counts)
    assert counts == InboxCounts(
        received=0, processing=0, failed=0, dead_lettered=0, oldest_unfinished_age_seconds=None
    )
    await dead(inbox)
    await inbox.complete(await inbox.acquired("billing", message()))
    inbox.clock.advance(10)
    await inbox.fail(await inbox.acquired("billing", message()))
    inbox.clock.advance(5)
    await inbox.step(inbox.store.record, [("billing", message()), ("audit", message())])
    await inbox.acquire("billing", message(), message(), message())
    inbox.clock.advance(0.5)
    assert await inbox.step(inbox.store.counts) == InboxCounts(
        received=2, processing=3, failed=1, dead_lettered=1, oldest_unfinished_age_seconds=5.5
    )


async def test_only_processed_receipts_past_their_retention_are_deleted(inbox: Inbox) -> None:
    days = inbox.options.processed_retention_seconds
    assert days == 30 * 86_400
    waiting, running, failed = message(), message(), message()
    await inbox.step(inbox.store.record, [("billing", waiting)])
    await inbox.acquired("billing", running)
    await inbox.fail(await inbox.acquired("billing", failed))
    await dead(inbox)
    discarded = await dead(inbox)
    await inbox.step(inbox.store.discard, discarded.key)
    old = [await inbox.acquired("billing", message()) for _ in range(2)]
    for receipt in old:
        await inbox.complete(receipt)
    inbox.clock.advance(days)
    assert await inbox.step(inbox.store.cleanup) == 0, "older than the retention, strictly"
    young = await inbox.acquired("billing", message())
    await inbox.complete(young)
    inbox.clock.advance(0.001)
    assert await inbox.step(inbox.store.cleanup) == 2
    rest = await inbox.rows()
    assert not {receipt.key for receipt in old} & rest.keys()
    assert young.key in rest
    assert len(rest) == 6


async def test_cleanup_is_bounded_and_begins_with_the_oldest(inbox: Inbox) -> None:
    completed = []
    for consumer in ("a", "b", "a", "b", "a"):
        receipt = await inbox.acquired(consumer, message())
        await inbox.complete(receipt)
        completed.append(receipt.key)
        inbox.clock.advance(1)
    inbox.clock.advance(inbox.options.processed_retention_seconds)
    assert await inbox.step(inbox.store.cleanup, limit=3) == 3
    assert (await inbox.rows()).keys() == set(completed[3:])
    assert await inbox.step(inbox.store.cleanup, limit=3) == 2
    assert await inbox.step(inbox.store.cleanup, limit=3) == 0


async def test_after_its_retention_the_same_delivery_runs_again(inbox: Inbox) -> None:
    one = message()
    await inbox.complete(await inbox.acquired("billing", one))
    inbox.clock.advance(inbox.options.processed_retention_seconds + 1)
    assert await inbox.status("billing", one) is AcquireStatus.ALREADY_PROCESSED
    await inbox.step(inbox.store.cleanup)
    assert (await inbox.acquired("billing", one)).attempt == 1
