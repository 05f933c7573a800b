"""Rows that kill their relay are isolated and at last buried; healthy ones never are."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import OutboxOptions
from tests.support.outbox import SEVERAL_WRITERS, Outbox, ids, message, messages
from uow.message import Message


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine, OutboxOptions(batch_size=10)).create()


async def _relay_dies_with_its_batch(outbox: Outbox) -> None:
    await outbox.claim()
    outbox.advance(60)


async def test_a_row_claimed_three_times_without_a_verdict_is_claimed_alone(outbox: Outbox) -> None:
    added = await outbox.append(*messages(3))
    for _ in range(3):
        assert (await outbox.step(outbox.store.claim_suspect)).rows == ()
        await _relay_dies_with_its_batch(outbox)
    good = await outbox.append(message())
    assert ids(await outbox.claim()) == [good[0].id]
    for expected in added:
        suspect = await outbox.step(outbox.store.claim_suspect)
        assert ids(suspect) == [expected.id]
        await outbox.publish(suspect)
    assert (await outbox.step(outbox.store.claim_suspect)).rows == ()


async def test_any_verdict_or_release_clears_the_suspicion(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    for _ in range(4):
        await _relay_dies_with_its_batch(outbox)
        await _relay_dies_with_its_batch(outbox)
        claim = await outbox.claim()
        assert ids(claim) == [one.id]
        await outbox.retry(claim, delay_seconds=0)
        assert (await outbox.row(one))["claim_count"] == 0


async def test_a_relay_that_dies_ten_times_buries_nothing_and_all_is_published_after(outbox: Outbox) -> None:
    """The worst case: each death hits the same row, first in batches and then when it is alone."""
    added = await outbox.append(*messages(8))
    for _ in range(10):
        assert await outbox.step(outbox.store.bury_suspects) == []
        suspect = await outbox.step(outbox.store.claim_suspect)
        if not suspect.rows:
            await outbox.claim()
        outbox.advance(60)
    assert await outbox.step(outbox.store.bury_suspects) == []
    published = set()
    while (suspect := await outbox.step(outbox.store.claim_suspect)).rows:
        await outbox.publish(suspect)
        published |= set(ids(suspect))
    assert published == {each.id for each in added}


async def test_the_killer_is_buried_and_its_neighbours_are_published(outbox: Outbox) -> None:
    added = await outbox.append(*messages(5))
    killer = added[2]
    published: list[Message] = []
    buried: list[object] = []
    for _ in range(40):
        buried += await outbox.step(outbox.store.bury_suspects)
        suspect = await outbox.step(outbox.store.claim_suspect)
        for claim in (suspect, await outbox.claim()):
            if killer.id not in ids(claim):
                await outbox.publish(claim)
                published += [row.message for row in claim.rows]
        outbox.advance(60)
    assert buried == [killer.id]
    assert {each.id for each in published} == {each.id for each in added} - {killer.id}
    found = await outbox.step(outbox.store.find, killer.id)
    assert found is not None
    assert (found.state, found.error_code, found.attempts) == ("dead_lettered", "relay_died", 13)


async def test_nothing_is_buried_while_its_last_claim_may_still_come_to_a_verdict(outbox: Outbox) -> None:
    await outbox.append(message())
    for _ in range(3):
        await _relay_dies_with_its_batch(outbox)
    for _ in range(9):
        await outbox.step(outbox.store.claim_suspect)
        outbox.advance(60)
    last = await outbox.step(outbox.store.claim_suspect)
    outbox.advance(59)
    assert await outbox.step(outbox.store.bury_suspects) == []
    assert (await outbox.publish(last)).published == last.sequences


async def test_a_buried_row_can_be_replayed_and_starts_anew(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    for _ in range(3):
        await _relay_dies_with_its_batch(outbox)
    for _ in range(10):
        await outbox.step(outbox.store.claim_suspect)
        outbox.advance(60)
    assert await outbox.step(outbox.store.bury_suspects) == [one.id]
    await outbox.step(outbox.store.replay, [one.id])
    claim = await outbox.claim()
    assert ids(claim) == [one.id]
    assert (await outbox.row(one))["claim_count"] == 1


async def test_a_suspect_waits_for_the_head_of_its_key(outbox: Outbox) -> None:
    head, second = await outbox.append(*messages(2, key="a"))
    for _ in range(3):
        await _relay_dies_with_its_batch(outbox)
    await outbox.publish(await outbox.step(outbox.store.claim_suspect))
    for _ in range(3):
        await _relay_dies_with_its_batch(outbox)
    await outbox.step(outbox.store.schedule_again, head)
    assert (await outbox.step(outbox.store.claim_suspect)).rows == ()
    await outbox.publish(await outbox.claim())
    assert ids(await outbox.step(outbox.store.claim_suspect)) == [second.id]


async def test_suspects_far_back_in_a_long_queue_get_their_turn(outbox: Outbox) -> None:
    """A look goes through the first thousand due rows only; older ones are published meanwhile."""
    (suspect,) = await outbox.append(message())
    for _ in range(2):
        await _relay_dies_with_its_batch(outbox)
    await outbox.claim()
    waiting = await outbox.append(*messages(1000))
    outbox.advance(60)
    assert ids(await outbox.step(outbox.store.claim_suspect)) == []
    await outbox.publish(await outbox.claim(1000))
    assert ids(await outbox.step(outbox.store.claim_suspect)) == [suspect.id]
    assert await outbox.states(waiting[:3]) == ["published"] * 3


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
async def test_a_suspect_that_is_being_claimed_is_not_buried(outbox: Outbox) -> None:
    """The burial has seen it due, waits for the claim to commit, and finds it in hand."""
    (one,) = await outbox.append(message())
    for _ in range(3):
        await _relay_dies_with_its_batch(outbox)
    for _ in range(10):
        await outbox.step(outbox.store.claim_suspect)
        outbox.advance(60)
    async with outbox.engine.connect() as connection:
        await connection.execution_options(isolation_level="READ COMMITTED")
        claim = await connection.run_sync(outbox.store.claim_suspect)
        burying = asyncio.create_task(outbox.step(outbox.store.bury_suspects))
        done, _ = await asyncio.wait([burying], timeout=0.2)
        assert not done
        await connection.commit()
    assert await burying == []
    assert (await outbox.publish(claim)).published == claim.sequences
    assert await outbox.states([one]) == ["published"]
