"""Leases and tokens: who may end an attempt; the same on every database."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from inbox.receipt import AcquiredReceipt, ReceiptKey, ReceiptLease
from inbox.view import LeaseFate
from tests.support.inbox import Inbox, message
from uow.sql.step import run_step

Verb = Callable[[Inbox, AcquiredReceipt], Awaitable[bool]]

pytest_plugins = ("tests.support.inbox_fixture",)


async def renew(inbox: Inbox, receipt: AcquiredReceipt) -> bool:
    return not await inbox.step(inbox.store.renew, [receipt.lease])


async def release(inbox: Inbox, receipt: AcquiredReceipt) -> bool:
    return not await inbox.step(inbox.store.release, [receipt.lease])


VERBS = pytest.mark.parametrize(
    "verb", [Inbox.complete, Inbox.fail, Inbox.dead_letter, renew, release], ids=lambda verb: verb.__name__
)

MANY_WRITERS = pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])


@VERBS
async def test_a_lease_is_ours_until_the_last_moment_before_its_expiry(inbox: Inbox, verb: Verb) -> None:
    receipt = await inbox.acquired("billing", message())
    inbox.clock.advance(59.999999)
    assert await verb(inbox, receipt)


@VERBS
async def test_at_exactly_its_expiry_the_lease_is_lost(inbox: Inbox, verb: Verb) -> None:
    receipt = await inbox.acquired("billing", message())
    before = await inbox.rows()
    inbox.clock.advance(60)
    assert not await verb(inbox, receipt)
    assert await inbox.rows() == before


@VERBS
async def test_a_stale_token_changes_nothing_whoever_has_the_receipt_now(inbox: Inbox, verb: Verb) -> None:
    one = message()
    stale = await inbox.acquired("billing", one)
    inbox.clock.advance(60)
    current = await inbox.acquired("billing", one)
    before = await inbox.rows()
    assert not await verb(inbox, stale)
    assert await inbox.rows() == before
    assert await verb(inbox, current)


@VERBS
async def test_a_receipt_that_has_ended_cannot_be_ended_again(inbox: Inbox, verb: Verb) -> None:
    for end in (Inbox.complete, Inbox.fail, Inbox.dead_letter, release):
        receipt = await inbox.acquired("billing", message())
        assert await end(inbox, receipt)
        before = await inbox.rows()
        assert not await verb(inbox, receipt)
        assert await inbox.rows() == before


@VERBS
async def test_the_same_message_at_another_consumer_is_another_receipt(inbox: Inbox, verb: Verb) -> None:
    one = message()
    receipt = await inbox.acquired("Audit", one)
    other = await inbox.acquired("audit", one)
    before = await inbox.row(other)
    assert await verb(inbox, receipt)
    assert await inbox.row(other) == before


async def test_a_renewed_lease_lasts_its_full_time_from_then(inbox: Inbox) -> None:
    receipt = await inbox.acquired("billing", message())
    for _ in range(3):
        inbox.clock.advance(59)
        assert await renew(inbox, receipt)
    inbox.clock.advance(59.999)
    assert await inbox.claim("billing") == []
    assert await inbox.complete(receipt)


async def test_renewing_many_tells_exactly_which_are_lost(inbox: Inbox) -> None:
    one, two, three = message(), message(), message()
    lost = await inbox.acquired("billing", one)
    inbox.clock.advance(60)
    taken_over = await inbox.acquired("billing", one)
    done = await inbox.acquired("billing", two)
    await inbox.complete(done)
    batch = [
        answer.receipt
        for answer in await inbox.acquire("billing", three, message(), message())
        if answer.receipt
    ]
    unknown = ReceiptLease(ReceiptKey(uuid4(), "billing"), uuid4())
    held = [taken_over.lease, *(receipt.lease for receipt in batch)]
    found = await inbox.step(inbox.store.renew, [lost.lease, done.lease, unknown, *held])
    assert found == {lost.lease, done.lease, unknown}
    inbox.clock.advance(59)
    assert await inbox.step(inbox.store.renew, held) == frozenset()
    assert await inbox.step(inbox.store.renew, []) == frozenset()


async def test_the_tokens_of_one_batch_do_not_mix_with_those_of_another(inbox: Inbox) -> None:
    """A process drops one receipt of a batch; renewing the others must not keep it alive."""
    one, two = message(), message()
    first = [answer.receipt for answer in await inbox.acquire("a", one, two) if answer.receipt]
    second = [answer.receipt for answer in await inbox.acquire("b", one, two) if answer.receipt]
    kept = [first[0].lease, second[1].lease]
    inbox.clock.advance(30)
    assert await inbox.step(inbox.store.renew, kept) == frozenset()
    inbox.clock.advance(30)
    assert {receipt.key for receipt in await inbox.claim("a", "b")} == {first[1].key, second[0].key}


@MANY_WRITERS
async def test_a_renewal_does_not_wait_for_a_receipt_that_is_being_completed(inbox: Inbox) -> None:
    slow, other = [await inbox.acquired("billing", message()) for _ in range(2)]
    async with inbox.engine.connect() as connection:
        await connection.run_sync(inbox.store.complete, slow.lease)
        inbox.clock.advance(10)
        lost = await asyncio.wait_for(inbox.step(inbox.store.renew, [slow.lease, other.lease]), timeout=5)
        assert lost == frozenset()
        await connection.commit()
    assert await inbox.step(inbox.store.renew, [slow.lease, other.lease]) == {slow.lease}
    assert (await inbox.row(other))["lease_expires_at"] == inbox.clock.moment + timedelta(seconds=60)


async def test_a_release_gives_the_attempt_back_and_makes_it_due(inbox: Inbox) -> None:
    one = message()
    await inbox.fail(await inbox.acquired("billing", one), delay_seconds=0)
    for _ in range(5):
        receipt = await inbox.acquired("billing", one)
        assert receipt.attempt == 2
        assert await release(inbox, receipt)
    receipt = await inbox.acquired("billing", one)
    assert await inbox.step(inbox.store.release, [receipt.lease], delay_seconds=3) == frozenset()
    assert await inbox.claim("billing") == []
    inbox.clock.advance(3)
    assert [each.attempt for each in await inbox.claim("billing")] == [2]
    assert await inbox.step(inbox.store.release, []) == frozenset()


async def test_releasing_many_tells_which_were_lost(inbox: Inbox) -> None:
    batch = [answer.receipt for answer in await inbox.acquire("a", *(message() for _ in range(6)))]
    leases = [receipt.lease for receipt in batch if receipt]
    await inbox.complete(batch[0])  # type: ignore[arg-type]
    assert await inbox.step(inbox.store.release, leases) == {leases[0]}
    assert len(await inbox.claim("a")) == 5


async def test_a_completion_counts_only_when_its_transaction_commits(inbox: Inbox) -> None:
    receipt = await inbox.acquired("billing", message())
    async with inbox.engine.connect() as connection:
        assert await connection.run_sync(inbox.store.complete, receipt.lease)
        await connection.rollback()
    assert await inbox.complete(receipt)


async def test_on_postgresql_a_completion_tells_the_transaction_it_ran_in(inbox: Inbox) -> None:
    receipt = await inbox.acquired("billing", message())
    completion = await inbox.step(inbox.store.complete, receipt.lease)
    assert completion is not None
    if inbox.engine.dialect.name == "postgresql":
        assert completion.transaction_id is not None
        assert completion.transaction_id.isdecimal()
    else:
        assert completion.transaction_id is None


@pytest.mark.parametrize(
    ("end", "fate"),
    [
        (None, LeaseFate.HELD),
        (Inbox.complete, LeaseFate.COMPLETED),
        (Inbox.fail, LeaseFate.LOST),
        (Inbox.dead_letter, LeaseFate.LOST),
        (release, LeaseFate.LOST),
    ],
)
async def test_the_fate_of_a_lease_can_be_asked(inbox: Inbox, end: Verb | None, fate: LeaseFate) -> None:
    receipt = await inbox.acquired("billing", message())
    if end is not None:
        assert await end(inbox, receipt)
    assert await inbox.step(inbox.store.fate, receipt.lease) is fate
    inbox.clock.advance(60)
    assert await inbox.step(inbox.store.fate, receipt.lease) is (
        LeaseFate.LOST if fate is LeaseFate.HELD else fate
    )


async def test_a_completion_by_the_next_holder_is_not_taken_for_ones_own(inbox: Inbox) -> None:
    one = message()
    stale = await inbox.acquired("billing", one)
    inbox.clock.advance(60)
    assert await inbox.complete(await inbox.acquired("billing", one))
    assert await inbox.step(inbox.store.fate, stale.lease) is LeaseFate.LOST
    unknown = ReceiptLease(ReceiptKey(uuid4(), "billing"), uuid4())
    assert await inbox.step(inbox.store.fate, unknown) is LeaseFate.LOST


@MANY_WRITERS
async def test_asking_for_the_fate_waits_for_the_transaction_that_decides_it(inbox: Inbox) -> None:
    receipt = await inbox.acquired("billing", message())
    async with inbox.engine.connect() as connection:
        await connection.run_sync(inbox.store.complete, receipt.lease)
        asked = asyncio.create_task(
            run_step(inbox.engine, lambda other: inbox.store.fate(other, receipt.lease))
        )
        done, _ = await asyncio.wait([asked], timeout=0.2)
        assert not done
        await connection.commit()
    assert await asked is LeaseFate.COMPLETED
