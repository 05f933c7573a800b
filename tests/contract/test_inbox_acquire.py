"""Acquiring deliveries holds the same on every database."""

import asyncio
from uuid import uuid4

import pytest

from inbox.acquisition import AcquireStatus
from inbox.receipt import ReceiptKey
from tests.support.inbox import Inbox, message, statuses
from tests.support.statements import recorded_statements
from uow.message import Message
from uow.sql.clock import DatabaseClock
from uow.sql.step import run_step

ACQUIRED = AcquireStatus.ACQUIRED
BUSY = AcquireStatus.BUSY

pytest_plugins = ("tests.support.inbox_fixture",)


async def test_a_prefetched_batch_is_acquired_in_the_order_it_was_given(inbox: Inbox) -> None:
    batch = [message() for _ in range(20)]
    answers = await inbox.acquire("billing", *batch)
    assert statuses(answers) == [ACQUIRED] * 20
    assert [answer.receipt and answer.receipt.message for answer in answers] == batch
    assert {answer.receipt.attempt for answer in answers if answer.receipt} == {1}


async def test_an_empty_batch_asks_nothing(inbox: Inbox) -> None:
    with recorded_statements(inbox.engine) as statements:
        assert await inbox.acquire("billing") == []
    assert statements == []


async def test_each_status_is_told_apart_in_one_batch(inbox: Inbox) -> None:
    new, processed, busy, not_due, dead, conflict, discarded = (message() for _ in range(7))
    await inbox.complete(await inbox.acquired("billing", processed))
    await inbox.acquired("billing", busy)
    await inbox.fail(await inbox.acquired("billing", not_due))
    await inbox.dead_letter(await inbox.acquired("billing", dead))
    await inbox.complete(await inbox.acquired("billing", conflict))
    await inbox.dead_letter(await inbox.acquired("billing", discarded))
    await inbox.step(inbox.store.discard, ReceiptKey(discarded.id, "billing"))
    other = message("{}", id=conflict.id)
    answers = await inbox.acquire("billing", new, processed, busy, not_due, dead, other, discarded)
    assert statuses(answers) == [
        ACQUIRED,
        AcquireStatus.ALREADY_PROCESSED,
        BUSY,
        AcquireStatus.NOT_DUE,
        AcquireStatus.DEAD_LETTERED,
        AcquireStatus.CONFLICT,
        AcquireStatus.ALREADY_PROCESSED,
    ]


async def test_a_retry_whose_time_has_come_is_acquired_and_counted(inbox: Inbox) -> None:
    one = message()
    await inbox.fail(await inbox.acquired("billing", one), delay_seconds=5)
    inbox.clock.advance(4.999)
    assert await inbox.status("billing", one) is AcquireStatus.NOT_DUE
    inbox.clock.advance(0.001)
    assert (await inbox.acquired("billing", one)).attempt == 2


async def test_a_lease_is_taken_over_at_exactly_its_expiry_and_not_before(inbox: Inbox) -> None:
    one = message()
    first = await inbox.acquired("billing", one)
    inbox.clock.advance(59.999)
    assert await inbox.status("billing", one) is BUSY
    inbox.clock.advance(0.001)
    assert not await inbox.complete(first), "at the expiry the old owner has lost"
    second = await inbox.acquired("billing", one)
    assert second.attempt == 2
    assert not await inbox.complete(first)
    assert await inbox.complete(second)
    assert await inbox.status("billing", one) is AcquireStatus.ALREADY_PROCESSED


@pytest.mark.parametrize(
    "change",
    [
        {"payload": '{"amount":"12.51"}'},
        {"payload": '{"amount":"12.50"} '},
        {"contract_name": "orders.Placed"},
        {"contract_version": 2},
        {"occurred_at": message().occurred_at.__class__(639_028_224_000_000_008)},
    ],
    ids=["payload", "blank", "name", "version", "one tick"],
)
@pytest.mark.parametrize("due", [False, True], ids=["held", "expired"])
async def test_different_content_under_a_known_id_leaves_the_receipt_untouched(
    inbox: Inbox, change: dict[str, object], due: bool
) -> None:
    one = message(correlation_id="c-1")
    await inbox.acquired("billing", one)
    inbox.clock.advance(60 if due else 1)
    before = await inbox.rows()
    other = message(**({"id": one.id} | change))  # type: ignore[arg-type]
    assert await inbox.status("billing", other) is AcquireStatus.CONFLICT
    assert await inbox.rows() == before


async def test_trace_fields_take_no_part_in_equality_and_the_stored_ones_stay(inbox: Inbox) -> None:
    one = message(correlation_id="first", traceparent="00-a")
    await inbox.fail(await inbox.acquired("billing", one), delay_seconds=1)
    again = message(id=one.id, correlation_id="second")
    assert await inbox.status("billing", again) is AcquireStatus.NOT_DUE
    inbox.clock.advance(1)
    receipt = await inbox.acquired("billing", again)
    assert (await inbox.row(receipt))["correlation_id"] == "first"


async def test_the_same_message_twice_in_one_batch_runs_once(inbox: Inbox) -> None:
    one, two = message(), message()
    equal = message(id=one.id)
    differing = message("{}", id=one.id)
    answers = await inbox.acquire("billing", one, two, equal, one, differing)
    assert statuses(answers) == [ACQUIRED, ACQUIRED, BUSY, BUSY, AcquireStatus.CONFLICT]
    await inbox.complete(answers[0].receipt)  # type: ignore[arg-type]
    answers = await inbox.acquire("billing", one, equal, differing)
    done = AcquireStatus.ALREADY_PROCESSED
    assert statuses(answers) == [done, done, AcquireStatus.CONFLICT]
    answers = await inbox.acquire("billing", differing, one)
    assert statuses(answers) == [AcquireStatus.CONFLICT, BUSY], "asked again, the second is told truly"


async def test_consumers_compare_by_code_point(inbox: Inbox) -> None:
    one = message()
    names = ["Audit", "audit", "audit ", "audit\u0301", "\xe1udit", "\U0001f600" * 100]
    for name in names:
        assert await inbox.status(name, one) is ACQUIRED
    assert {key.consumer for key in await inbox.rows()} == set(names)
    for name in names:
        assert await inbox.status(name, one) is BUSY
    assert [receipt.consumer for receipt in await inbox.claim("AUDIT")] == []


async def test_a_message_comes_back_whole(inbox: Inbox) -> None:
    one = message(
        '{"name":"Zoë 😀","big":' + "9" * 100_000 + "}",
        correlation_id="😀" * 63,
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        tracestate="a=b",
    )
    await inbox.step(inbox.store.record, [("billing", one)])
    (receipt,) = await inbox.claim("billing")
    assert receipt.message == one


async def test_two_copies_acquired_at_once_are_acquired_once(inbox: Inbox) -> None:
    batch = [message() for _ in range(50)]
    answers = await asyncio.gather(
        inbox.acquire("billing", *batch), inbox.acquire("billing", *reversed(batch)), return_exceptions=True
    )
    assert not [each for each in answers if isinstance(each, BaseException)]
    first, second = answers
    for one, other in zip(first, reversed(second), strict=True):  # type: ignore[arg-type]
        assert {one.status, other.status} == {ACQUIRED, BUSY}


async def test_overlapping_batches_in_different_order_never_deadlock_to_the_caller(inbox: Inbox) -> None:
    known = [message() for _ in range(30)]
    for one in await inbox.acquire("billing", *known[::3]):
        await inbox.fail(one.receipt, delay_seconds=0)  # type: ignore[arg-type]
    orders = [known, known[::-1], known[10:] + known[:10], known[::2], known[::-3], known[5:25]]
    answers = await asyncio.gather(*(inbox.acquire("billing", *order) for order in orders))
    acquired = [each.receipt.key for answer in answers for each in answer if each.receipt]
    assert sorted(acquired) == sorted(ReceiptKey(one.id, "billing") for one in known)


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])
async def test_batches_are_locked_in_one_order_so_that_nothing_need_be_retried(inbox: Inbox) -> None:
    known = [message() for _ in range(400)]
    await inbox.acquire("billing", *known)
    inbox.clock.advance(60)

    async def acquire(order: list[Message]) -> int:
        answers = await run_step(
            inbox.engine, lambda connection: inbox.store.acquire(connection, "billing", order), attempts=1
        )
        return sum(answer.receipt is not None for answer in answers)

    orders = [known, known[::-1]] * 4
    assert sum(await asyncio.gather(*(acquire(order) for order in orders))) == 400


async def test_the_real_clock_of_the_database_leases_and_expires(inbox: Inbox) -> None:
    store = inbox.store_with(DatabaseClock())
    one, token = message(), uuid4()
    (answer,) = await run_step(inbox.engine, lambda c: store.acquire(c, "billing", [one], token=token))
    assert answer.receipt is not None
    assert answer.receipt.token == token
    (again,) = await run_step(inbox.engine, lambda c: store.acquire(c, "billing", [one]))
    assert again.status is BUSY
    assert await run_step(inbox.engine, lambda c: store.renew(c, [answer.receipt.lease])) == frozenset()  # type: ignore[union-attr]
    assert await run_step(inbox.engine, lambda c: store.complete(c, answer.receipt.lease))  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [1, 50, 500])
async def test_acquiring_takes_as_many_statements_for_any_batch(
    inbox: Inbox, database_kind: str, count: int
) -> None:
    batch = [message() for _ in range(count)]
    with recorded_statements(inbox.engine) as statements:
        await inbox.acquire("billing", *batch)
    assert len(statements) == {"sqlite": 1, "postgresql": 1, "mariadb": 3}[database_kind]
    with recorded_statements(inbox.engine) as statements:
        await inbox.acquire("billing", *batch)
    assert len(statements) == {"sqlite": 2, "postgresql": 2, "mariadb": 3}[database_kind]
