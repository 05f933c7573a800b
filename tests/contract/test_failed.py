"""What operators do about failed messages: once, recorded, with the same identity and payload."""

import asyncio
import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

import relay.admin.failed as failed_module
from inbox.acquisition import AcquireStatus
from inbox.receipt import ReceiptKey
from inbox.state import ReceiptState
from outbox.state import OutboxState
from relay.admin.failed_message import BulkProgress, FailedCursorError, FailedFilter
from relay.admin.failure_id import FailureId, FailureIdError, FailureKind
from relay.admin.operation import OperationKind, OperationResult
from tests.contract.failed_ground import Ground, Placed
from tests.support.statements import recorded_statements
from uow.contracts import Contracts
from uow.sql.step import run_step
from uow.text import TextError

ACCEPTED, NOT_FOUND = OperationResult.ACCEPTED, OperationResult.NOT_FOUND
INVALID_STATE, UNREADABLE = OperationResult.INVALID_STATE, OperationResult.UNREADABLE


@pytest.fixture
async def ground(engine: AsyncEngine) -> Ground:
    return await Ground(engine).create()


async def test_an_event_is_published_again_with_its_identity_and_payload(ground: Ground) -> None:
    message = ground.message()
    failure = await ground.dead_event(message)
    report = await ground.failed.replay(str(failure), operator="anna")
    assert (report.failure_id, report.result, ground.woken) == (str(failure), ACCEPTED, 1)
    record = await run_step(ground.engine, lambda c: ground.outbox.find(c, message.id))
    assert record is not None
    assert (record.state, record.attempts, record.message) == (OutboxState.PENDING, 0, message)
    claim = await run_step(ground.engine, ground.outbox.claim)
    assert [row.message for row in claim.rows] == [message]


async def test_a_receipt_is_reset_and_its_event_scheduled_in_one_transaction(ground: Ground) -> None:
    message = ground.message()
    failure = await ground.dead_receipt(message)
    assert (await ground.failed.replay(str(failure), operator="anna")).result is ACCEPTED
    receipt = await run_step(ground.engine, lambda c: ground.inbox.find(c, ReceiptKey(message.id, "billing")))
    assert receipt is not None
    assert (receipt.state, receipt.attempt_count) == (ReceiptState.RECEIVED, 0)
    claim = await run_step(ground.engine, ground.outbox.claim)
    assert [row.message for row in claim.rows] == [message]


async def test_an_inbox_replay_resets_the_event_that_was_published_and_fences_its_publisher(
    ground: Ground,
) -> None:
    message = ground.message()
    await run_step(ground.engine, lambda c: ground.outbox.append(c, [message]))
    in_flight = await run_step(ground.engine, ground.outbox.claim)
    failure = await ground.dead_receipt(message)
    assert (await ground.failed.replay(str(failure), operator="anna")).result is ACCEPTED
    lost = await run_step(
        ground.engine, lambda c: ground.outbox.renew(c, in_flight.token, in_flight.sequences)
    )
    assert lost == frozenset(in_flight.sequences)
    again = await run_step(ground.engine, ground.outbox.claim)
    assert [row.message for row in again.rows] == [message]


async def test_a_redelivery_to_other_consumers_is_absorbed_by_their_receipts(ground: Ground) -> None:
    message = ground.message()

    def complete_elsewhere(connection):  # type: ignore[no-untyped-def]
        (answer,) = ground.inbox.acquire(connection, "shipping", [message])
        assert ground.inbox.complete(connection, answer.receipt.lease)

    await run_step(ground.engine, complete_elsewhere)
    failure = await ground.dead_receipt(message)
    await ground.failed.replay(str(failure), operator="anna")
    (answer,) = await run_step(ground.engine, lambda c: ground.inbox.acquire(c, "shipping", [message]))
    assert answer.status is AcquireStatus.ALREADY_PROCESSED
    (answer,) = await run_step(ground.engine, lambda c: ground.inbox.acquire(c, "billing", [message]))
    assert answer.status is AcquireStatus.ACQUIRED


@pytest.mark.parametrize("kind", FailureKind)
async def test_two_operators_at_once_schedule_it_once_and_both_are_recorded(
    ground: Ground, kind: FailureKind
) -> None:
    failure = await (ground.dead_event() if kind is FailureKind.OUTBOX else ground.dead_receipt())
    reports = await asyncio.gather(
        *(ground.failed.replay(str(failure), operator=name) for name in ("anna", "ben", "cleo"))
    )
    assert sorted(report.result for report in reports) == [ACCEPTED, INVALID_STATE, INVALID_STATE]
    claim = await run_step(ground.engine, ground.outbox.claim)
    assert [row.message.id for row in claim.rows] == [failure.message_id]
    recorded = {(each.operator, each.result) for each in await ground.recorded()}
    assert {operator for operator, _ in recorded} == {"anna", "ben", "cleo"}
    assert sorted(result for _, result in recorded) == [ACCEPTED, INVALID_STATE, INVALID_STATE]


async def test_a_completed_receipt_cannot_be_replayed(ground: Ground) -> None:
    message = ground.message()

    def complete(connection):  # type: ignore[no-untyped-def]
        (answer,) = ground.inbox.acquire(connection, "billing", [message])
        assert ground.inbox.complete(connection, answer.receipt.lease)

    await run_step(ground.engine, complete)
    report = await ground.failed.replay(str(FailureId.inbox(message.id, "billing")), operator="anna")
    assert report.result is INVALID_STATE
    assert await run_step(ground.engine, lambda c: ground.outbox.find(c, message.id)) is None


@pytest.mark.parametrize("kind", FailureKind)
@pytest.mark.parametrize(
    "spoilt", ["{", "null", '{"number":1}'], ids=["malformed", "null", "without identity"]
)
async def test_an_unreadable_payload_is_refused_until_it_is_repaired(
    ground: Ground, kind: FailureKind, spoilt: str
) -> None:
    message = ground.message()
    dead = ground.dead_event if kind is FailureKind.OUTBOX else ground.dead_receipt
    failure = await dead(message)
    await ground.set_payload(message.id, spoilt)
    report = await ground.failed.replay(str(failure), operator="anna")
    assert report.result is UNREADABLE
    assert report.detail is not None
    detail = await ground.failed.find(str(failure))
    assert detail is not None
    assert (detail.state, ground.woken) == ("dead_lettered", 0)
    assert (await run_step(ground.engine, ground.outbox.claim)).rows == ()
    (recorded,) = await ground.recorded()
    assert (recorded.result, recorded.detail) == (UNREADABLE, report.detail)
    await ground.set_payload(message.id, message.payload)
    assert (await ground.failed.replay(str(failure), operator="anna")).result is ACCEPTED


@pytest.mark.parametrize("kind", FailureKind)
async def test_a_contract_that_is_not_registered_is_refused_until_the_application_knows_it(
    ground: Ground, kind: FailureKind
) -> None:
    known = Contracts()
    known.register(Placed, name="orders.placed", version=2)
    message = known.encode(Placed(number=1))
    dead = ground.dead_event if kind is FailureKind.OUTBOX else ground.dead_receipt
    failure = await dead(message)
    report = await ground.failed.replay(str(failure), operator="anna")
    assert report.result is UNREADABLE
    assert report.detail == "contract 'orders.placed' has no class for version 2 and no upcaster to one"


async def test_what_is_not_there_is_not_found_and_recorded(ground: Ground) -> None:
    for failure in (FailureId.outbox(uuid4()), FailureId.inbox(uuid4(), "billing")):
        assert (await ground.failed.replay(str(failure), operator="anna")).result is NOT_FOUND
        assert (await ground.failed.discard(str(failure), reason="x", operator="anna")).result is NOT_FOUND
        assert await ground.failed.find(str(failure)) is None
    assert [each.result for each in await ground.recorded()] == [NOT_FOUND] * 4


async def test_consumers_whose_names_differ_only_by_case_have_failures_of_their_own(ground: Ground) -> None:
    message = ground.message()
    audit = await ground.dead_receipt(message, consumer="Audit")
    await ground.dead_receipt(message, consumer="audit")
    assert (await ground.failed.replay(str(audit), operator="anna")).result is ACCEPTED
    page = await ground.failed.list()
    assert [each.consumer for each in page.messages] == ["audit"]


@pytest.mark.parametrize("kind", FailureKind)
async def test_a_discarded_message_keeps_its_row_is_resolved_and_is_not_replayed(
    ground: Ground, kind: FailureKind
) -> None:
    failure = await (ground.dead_event() if kind is FailureKind.OUTBOX else ground.dead_receipt())
    report = await ground.failed.discard(str(failure), reason="test order", operator="ben")
    assert report.result is ACCEPTED
    assert (await ground.failed.list()).messages == ()
    detail = await ground.failed.find(str(failure))
    assert detail is not None
    assert detail.state == "discarded"
    (operation,) = detail.operations
    assert (operation.kind, operation.operator, operation.reason) == (
        OperationKind.DISCARD,
        "ben",
        "test order",
    )
    assert operation.occurred_at is not None
    assert datetime.now(UTC) - operation.occurred_at < timedelta(minutes=1)
    assert (await ground.failed.replay(str(failure), operator="ben")).result is INVALID_STATE
    assert (await ground.failed.discard(str(failure), reason="x", operator="ben")).result is INVALID_STATE


async def test_a_discarded_head_lets_its_ordering_key_go_on(ground: Ground) -> None:
    head, next_one = (ground.contracts.encode(Placed(number=number)) for number in (1, 2))
    head, next_one = replace(head, ordering_key="k"), replace(next_one, ordering_key="k")
    failure = await ground.dead_event(head)
    await run_step(ground.engine, lambda c: ground.outbox.append(c, [next_one]))
    assert (await run_step(ground.engine, ground.outbox.claim)).rows == ()
    await ground.failed.discard(str(failure), reason="gone", operator="anna")
    claim = await run_step(ground.engine, ground.outbox.claim)
    assert [row.message.id for row in claim.rows] == [next_one.id]


async def test_the_list_shows_metadata_the_latest_failure_first_and_never_a_payload(ground: Ground) -> None:
    event = await ground.dead_event(ground.contracts.encode(Placed(number=424242)))
    receipt = await ground.dead_receipt(ground.contracts.encode(Placed(number=424242)))
    page = await ground.failed.list()
    assert [each.failure_id for each in page.messages] == [str(receipt), str(event)]
    latest, first = page.messages
    assert (latest.kind, latest.consumer, latest.error_code, latest.attempts) == (
        FailureKind.INBOX,
        "billing",
        "handler_error",
        1,
    )
    assert (first.kind, first.consumer, first.contract_name, first.contract_version, first.error_code) == (
        FailureKind.OUTBOX,
        None,
        "orders.placed",
        1,
        "unroutable",
    )
    assert page.next_cursor is None
    shown = repr(page) + repr([await ground.failed.find(each.failure_id) for each in page.messages])
    assert "424242" not in shown


async def test_pages_cover_everything_once_whatever_their_size(ground: Ground) -> None:
    expected = []
    for number in range(4):
        message = ground.message(number)
        expected += [str(await ground.dead_event(message)), str(await ground.dead_receipt(message))]
    for limit in (1, 3, 8, 1000):
        seen, cursor, pages = [], None, 0
        while True:
            page = await ground.failed.list(cursor=cursor, limit=limit)
            seen += [each.failure_id for each in page.messages]
            cursor, pages = page.next_cursor, pages + 1
            if cursor is None:
                break
        assert seen == expected[::-1]
        assert pages == -(-8 // limit)


async def test_filters_hold_together(ground: Ground) -> None:
    await ground.dead_event()
    billing = await ground.dead_receipt(code="timeout")
    await ground.dead_receipt(consumer="shipping")
    now = datetime.now(UTC)

    async def found(**only) -> list[str]:  # type: ignore[no-untyped-def]
        failures = [each.failure_id for each in (await ground.failed.list(FailedFilter(**only))).messages]
        assert await ground.failed.count(FailedFilter(**only)) == len(failures)
        return failures

    assert await found(consumer="billing") == [str(billing)]
    assert await found(error_code="timeout", kind=FailureKind.INBOX) == [str(billing)]
    assert await found(error_code="timeout", kind=FailureKind.OUTBOX) == []
    assert len(await found(kind=FailureKind.INBOX)) == 2
    assert len(await found(contract_name="orders.placed", contract_version=1)) == 3
    assert await found(contract_name="orders.Placed") == []
    assert await found(contract_version=2) == []
    assert len(await found(failed_from=now - timedelta(hours=1), failed_before=now + timedelta(hours=1))) == 3
    assert await found(failed_before=now - timedelta(hours=1)) == []


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
async def test_wrong_arguments_are_refused_by_name_and_rule(ground: Ground) -> None:
    for limit in (0, 1001):
        with pytest.raises(ValueError, match="limit must be between 1 and 1000"):
            await ground.failed.list(limit=limit)
    for place in ('"2026-01-01T00:00:00"', '"2026-01-01T00:00:00Z"'):
        forged = f'[null,[{place},"{uuid4()}","a\\u0000"]]'
        for cursor in ("abc", base64.urlsafe_b64encode(forged.encode()).decode()):
            with pytest.raises(FailedCursorError):
                await ground.failed.list(cursor=cursor)
    with pytest.raises(ValueError, match="failed_from must have a time zone"):
        FailedFilter(failed_from=datetime(2026, 1, 1))  # noqa: DTZ001
    for wrong in (
        {"contract_name": "a\x00"},
        {"consumer": "\ud800"},
        {"error_code": 7},
        {"contract_version": 2**31},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            FailedFilter(**wrong)
    with pytest.raises(FailureIdError):
        await ground.failed.replay("42", operator="anna")
    for operator in ("", "  ", "a\nb", "x" * 201, "\U0001f600" * 101, "a\x00"):
        with pytest.raises(TextError, match="operator"):
            await ground.failed.replay(str(FailureId.outbox(uuid4())), operator=operator)
    for reason in (" ", "x" * 1001):
        with pytest.raises(TextError, match="reason"):
            await ground.failed.discard(str(FailureId.outbox(uuid4())), reason=reason, operator="anna")
    assert await ground.recorded() == []


async def test_bulk_replay_reports_progress_and_leaves_what_it_cannot_read(ground: Ground) -> None:
    messages = [ground.message(number) for number in range(5)]
    for message in messages[:3]:
        await ground.dead_receipt(message)
    await ground.dead_event(messages[3])
    other = await ground.dead_receipt(messages[4], consumer="shipping")
    await ground.set_payload(messages[1].id, "{")
    seen: list[BulkProgress] = []
    refused = []
    done = await ground.failed.replay_many(
        FailedFilter(consumer="billing"), operator="anna", on_progress=seen.append, on_report=refused.append
    )
    assert done.results == {ACCEPTED: 2, UNREADABLE: 1}
    assert [(progress.done, progress.total) for progress in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [report.failure_id for report in refused if report.result is UNREADABLE] == [
        str(FailureId.inbox(messages[1].id, "billing"))
    ]
    left = {each.failure_id for each in (await ground.failed.list()).messages}
    assert left == {
        str(other),
        str(FailureId.outbox(messages[3].id)),
        str(FailureId.inbox(messages[1].id, "billing")),
    }


async def test_bulk_replay_of_more_than_a_page_schedules_each_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_module, "LIST_LIMIT", 3)
    failures = [await ground.dead_event(ground.message(number)) for number in range(8)]
    with recorded_statements(ground.engine) as statements:
        assert await ground.failed.count() == 8
    assert len(statements) == 2
    done = await ground.failed.replay_many(operator="anna")
    assert (done.accepted, done.done, done.total) == (8, 8, 8)
    claim = await run_step(ground.engine, ground.outbox.claim)
    assert {row.message.id for row in claim.rows} == {failure.message_id for failure in failures}
    assert await ground.failed.count() == 0
