"""Claiming leases due rows to one owner, oldest first, and a lease ends exactly at its expiry."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import OutboxOptions, Settlement
from tests.support.outbox import Outbox, ids, message, messages


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine, OutboxOptions(batch_size=10)).create()


async def test_a_claim_takes_the_oldest_up_to_its_limit_and_says_whether_more_may_be_due(
    outbox: Outbox,
) -> None:
    added = await outbox.append(*messages(25))
    first = await outbox.claim()
    assert ids(first) == [each.id for each in added[:10]]
    assert first.more
    rest = await outbox.claim(1000)
    assert ids(rest) == [each.id for each in added[10:]]
    assert not rest.more
    empty = await outbox.claim()
    assert (empty.rows, empty.more) == ((), False)
    assert first.token != rest.token


@pytest.mark.parametrize("limit", [0, -1, 1001, 2.5, True])
async def test_a_limit_outside_1_to_1000_is_refused(outbox: Outbox, limit: object) -> None:
    with pytest.raises(ValueError, match=r"limit must be between 1 and 1000, not"):
        await outbox.claim(limit)  # type: ignore[arg-type]


async def test_at_exactly_the_expiry_the_old_owner_has_lost_and_a_new_one_may_claim(outbox: Outbox) -> None:
    await outbox.append(*messages(4))
    old = await outbox.claim()
    outbox.advance(59.999999)
    assert (await outbox.claim()).rows == ()
    assert await outbox.step(outbox.store.renew, old.token, old.sequences[:1]) == frozenset()
    assert (await outbox.settle(old, Settlement.published(old.sequences[1]))).lost == ()

    outbox.advance(0.000001)
    lost = old.sequences[2:]
    assert await outbox.step(outbox.store.renew, old.token, old.sequences) == {old.sequences[1], *lost}
    report = await outbox.settle(old, *(Settlement.published(each) for each in lost))
    assert (report.published, report.lost) == ((), lost)
    new = await outbox.claim()
    assert new.sequences == lost


async def test_an_expired_owner_can_do_nothing_although_nobody_has_claimed_yet(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    old = await outbox.claim()
    outbox.advance(60)
    before = dict(await outbox.row(one))
    for report in (
        await outbox.publish(old),
        await outbox.retry(old),
        await outbox.dead_letter(old),
        await outbox.settle(old, Settlement.release(old.sequences[0])),
    ):
        assert report.lost == old.sequences
    assert await outbox.step(outbox.store.renew, old.token, old.sequences) == {*old.sequences}
    assert dict(await outbox.row(one)) == before


async def test_a_stale_token_changes_nothing_of_the_new_owners_row(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    old = await outbox.claim()
    outbox.advance(60)
    new = await outbox.claim()
    before = dict(await outbox.row(one))
    assert (await outbox.publish(old)).lost == old.sequences
    assert await outbox.step(outbox.store.renew, old.token, old.sequences) == {*old.sequences}
    assert dict(await outbox.row(one)) == before
    assert (await outbox.publish(new)).published == new.sequences


async def test_a_renewed_lease_counts_from_the_renewal(outbox: Outbox) -> None:
    await outbox.append(*messages(2))
    claim = await outbox.claim()
    outbox.advance(50)
    assert await outbox.step(outbox.store.renew, claim.token, claim.sequences) == frozenset()
    outbox.advance(59)
    assert (await outbox.claim()).rows == ()
    outbox.advance(1)
    assert (await outbox.claim()).sequences == claim.sequences


async def test_renewing_nothing_asks_nothing(outbox: Outbox) -> None:
    claim = await outbox.claim()
    assert await outbox.step(outbox.store.renew, claim.token, []) == frozenset()
    assert (await outbox.settle(claim)).lost == ()


async def test_rows_come_in_the_order_of_their_due_time_then_of_their_sequence(outbox: Outbox) -> None:
    first, second = await outbox.append(*messages(2))
    claim = await outbox.claim()
    await outbox.settle(
        claim,
        Settlement.release(claim.sequences[0], delay_seconds=2),
        Settlement.release(claim.sequences[1], delay_seconds=1),
    )
    outbox.advance(3)
    assert ids(await outbox.claim(1)) == [second.id]
    assert ids(await outbox.claim(1)) == [first.id]


async def test_two_full_batches_of_failing_rows_do_not_hold_up_good_ones(outbox: Outbox) -> None:
    await outbox.append(*messages(20))
    good = await outbox.append(*messages(3))
    for _ in range(2):
        await outbox.retry(await outbox.claim(), delay_seconds=5)
    assert ids(await outbox.claim()) == [each.id for each in good]


async def test_every_row_that_failed_is_claimed_again_when_its_delay_has_passed(outbox: Outbox) -> None:
    added = await outbox.append(*messages(3))
    claim = await outbox.claim()
    await outbox.settle(
        claim,
        *(
            Settlement.retry(each, delay_seconds=delay, error_code="nack")
            for each, delay in zip(claim.sequences, (5, 10, 10), strict=True)
        ),
    )
    outbox.advance(4.999)
    assert ids(await outbox.claim()) == []
    outbox.advance(0.001)
    again = await outbox.claim()
    assert ids(again) == [added[0].id]
    assert [row.failure_count for row in again.rows] == [1]
    outbox.advance(5)
    assert ids(await outbox.claim()) == [each.id for each in added[1:]]
