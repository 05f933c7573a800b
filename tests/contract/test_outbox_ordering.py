"""Of one ordering key one row at a time, in order; its head holds the others until it is out of the way."""

import asyncio

import pytest
from sqlalchemy import true, update
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import DiscardResult, OutboxOptions, ReplayResult
from tests.support.outbox import SEVERAL_WRITERS, Outbox, ids, message, messages
from tests.support.waiting import eventually
from uow.message import Message


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine, OutboxOptions(batch_size=10, max_retry_attempts=1)).create()


async def _publish_next(outbox: Outbox) -> list[Message]:
    claim = await outbox.claim()
    await outbox.publish(claim)
    return [row.message for row in claim.rows]


async def test_rows_of_one_key_are_claimed_one_after_the_other(outbox: Outbox) -> None:
    added = await outbox.append(*messages(4, key="a"))
    for expected in added:
        claim = await outbox.claim()
        assert ids(claim) == [expected.id]
        assert ids(await outbox.claim()) == []
        await outbox.publish(claim)
    assert ids(await outbox.claim()) == []


async def test_keys_do_not_hold_one_another_and_rows_without_a_key_are_free(outbox: Outbox) -> None:
    a1, b1, free, *_, upper = await outbox.append(
        message(key="a"), message(key="b"), message(), message(key="a"), message(key="b"), message(key="A")
    )
    assert ids(await outbox.claim()) == [a1.id, b1.id, free.id, upper.id]


async def test_the_head_holds_its_key_while_it_waits_for_a_retry(outbox: Outbox) -> None:
    head, second = await outbox.append(*messages(2, key="a"))
    await outbox.retry(await outbox.claim(), delay_seconds=300)
    outbox.advance(299)
    assert ids(await outbox.claim()) == []
    outbox.advance(1)
    assert [each.id for each in await _publish_next(outbox)] == [head.id]
    assert [each.id for each in await _publish_next(outbox)] == [second.id]


async def test_a_dead_head_holds_its_key_until_it_is_discarded(outbox: Outbox) -> None:
    head, second, third = await outbox.append(*messages(3, key="a"))
    await outbox.dead_letter(await outbox.claim())
    outbox.advance(100_000)
    assert ids(await outbox.claim()) == []
    assert await outbox.step(outbox.store.discard, [head.id]) == {head.id: DiscardResult.ACCEPTED}
    assert [each.id for each in await _publish_next(outbox)] == [second.id]
    assert [each.id for each in await _publish_next(outbox)] == [third.id]


async def test_a_dead_head_that_is_replayed_goes_first(outbox: Outbox) -> None:
    head, second = await outbox.append(*messages(2, key="a"))
    await outbox.dead_letter(await outbox.claim())
    assert ids(await outbox.claim()) == []
    assert await outbox.step(outbox.store.replay, [head.id]) == {head.id: ReplayResult.ACCEPTED}
    assert [each.id for each in await _publish_next(outbox)] == [head.id]
    assert [each.id for each in await _publish_next(outbox)] == [second.id]


async def test_an_event_scheduled_again_holds_later_ones_of_its_key(outbox: Outbox) -> None:
    (first,) = await outbox.append(message(key="a"))
    await _publish_next(outbox)
    (second,) = await outbox.append(message(key="a"))
    await outbox.step(outbox.store.schedule_again, first)
    assert [each.id for each in await _publish_next(outbox)] == [first.id]
    assert [each.id for each in await _publish_next(outbox)] == [second.id]


async def test_an_expired_head_is_taken_over_before_its_followers(outbox: Outbox) -> None:
    head, _ = await outbox.append(*messages(2, key="a"))
    await outbox.claim()
    assert ids(await outbox.claim()) == []
    outbox.advance(60)
    assert ids(await outbox.claim()) == [head.id]


async def test_a_long_queue_behind_a_held_head_does_not_keep_others_waiting(outbox: Outbox) -> None:
    """All held rows are older than the good one; claims of 10 put them off, up to 50 at a time."""
    await outbox.append(*messages(1, key="a"))
    await outbox.dead_letter(await outbox.claim())
    await outbox.append(*messages(120, key="a"))
    (good,) = await outbox.append(message())
    for _ in range(2):
        claim = await outbox.claim()
        assert (claim.rows, claim.more) == ((), True)
    assert ids(await outbox.claim()) == [good.id]
    assert not (await outbox.claim()).more


async def test_held_rows_are_put_off_so_that_claims_do_not_meet_them_again(outbox: Outbox) -> None:
    _, second = await outbox.append(*messages(2, key="a"))
    claim = await outbox.claim()
    row = await outbox.row(second)
    assert (row["state"], row["claim_count"]) == ("pending", 0)
    assert (row["next_attempt_at"] - (await outbox.row(claim.rows[0].message))["created_at"]).seconds == 900
    await outbox.publish(claim)
    assert (await outbox.row(second))["next_attempt_at"] == row["created_at"]


async def test_a_key_let_go_by_hand_goes_on_after_a_quarter_of_an_hour(outbox: Outbox) -> None:
    head, second = await outbox.append(*messages(2, key="a"))
    claim = await outbox.claim()
    assert ids(claim) == [head.id]
    table = outbox.table
    gone = update(table).where(table.c.event_id == head.id).values(holding_key=None, next_attempt_at=None)
    await outbox.step(lambda connection: connection.execute(gone))
    outbox.advance(899)
    assert ids(await outbox.claim()) == []
    outbox.advance(1)
    assert ids(await outbox.claim()) == [second.id]


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
async def test_a_head_published_while_its_follower_is_being_put_off_makes_it_due(outbox: Outbox) -> None:
    """The settlement waits for the claim that put the row off, and then makes it due; no wake is lost."""
    _, second = await outbox.append(*messages(2, key="a"))
    head = await outbox.claim(1)
    async with outbox.engine.connect() as connection:
        await connection.execution_options(isolation_level="READ COMMITTED")
        other = await connection.run_sync(outbox.store.claim)
        assert other.rows == ()
        settling = asyncio.create_task(outbox.publish(head))
        done, _ = await asyncio.wait([settling], timeout=0.2)
        assert not done
        await connection.commit()
    assert (await settling).published == head.sequences
    assert ids(await outbox.claim()) == [second.id]


async def test_claims_settling_at_once_keep_each_key_in_order(engine: AsyncEngine) -> None:
    outbox = await Outbox(engine, OutboxOptions(batch_size=4)).create()
    added = [message(key=f"key {number % 5}") for number in range(60)]
    await outbox.append(*added)
    published: list[Message] = []

    async def relay() -> None:
        while len(published) < len(added):
            claim = await outbox.claim()
            published.extend(row.message for row in claim.rows)
            await outbox.publish(claim)

    await asyncio.wait_for(asyncio.gather(*(relay() for _ in range(4))), timeout=30)
    await eventually(lambda: len(published) == len(added))
    for key in {each.ordering_key for each in added}:
        assert [each.id for each in published if each.ordering_key == key] == [
            each.id for each in added if each.ordering_key == key
        ]


async def test_a_row_put_off_although_its_key_is_free_by_now_is_made_due_at_once(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim may see a head that is let go before it has locked the follower; it looks again."""
    (one,) = await outbox.append(message(key="a"))
    with monkeypatch.context() as patch:
        patch.setattr("outbox.claim.held", lambda _ground, _row: true())
        assert (await outbox.claim(1)).rows == ()
    assert ids(await outbox.claim()) == [one.id]
