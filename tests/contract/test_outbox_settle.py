"""Each outcome of a claimed row becomes its state; what was lost is said, never silent."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import OutboxOptions, Settlement
from tests.support.outbox import START, Outbox, ids, message, messages


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine, OutboxOptions(max_retry_attempts=2)).create()


async def test_one_batch_with_all_outcomes_and_a_lost_row(outbox: Outbox) -> None:
    added = await outbox.append(*messages(7))
    claim = await outbox.claim()
    published, first_retry, second_retry, unroutable, too_large, released, _ = claim.sequences
    report = await outbox.settle(
        claim,
        Settlement.published(published),
        Settlement.retry(first_retry, delay_seconds=5, error_code="nack", error_detail="basic.nack"),
        Settlement.retry(second_retry, delay_seconds=7.5, error_code="timeout"),
        Settlement.dead_letter(unroutable, error_code="unroutable", error_detail="no queue for 'Zoë 😀'"),
        Settlement.dead_letter(too_large, error_code="too_large"),
        Settlement.release(released, delay_seconds=1),
        Settlement.published(987_654),
    )
    assert report.published == (published,)
    assert report.retried == (first_retry, second_retry)
    assert report.dead_lettered == (unroutable, too_large)
    assert report.released == (released,)
    assert report.lost == (987_654,)
    rows = [await outbox.row(each) for each in added]
    assert [row["state"] for row in rows] == [
        "published", "pending", "pending", "dead_lettered", "dead_lettered", "pending", "publishing",
    ]  # fmt: skip
    assert [row["error_code"] for row in rows] == [
        None, "nack", "timeout", "unroutable", "too_large", None, None,
    ]  # fmt: skip
    assert [row["error_detail"] for row in rows][1:4] == ["basic.nack", None, "no queue for 'Zoë 😀'"]
    assert [row["failure_count"] for row in rows] == [0, 1, 1, 1, 1, 0, 0]
    assert [row["claim_count"] for row in rows] == [0, 0, 0, 0, 0, 0, 1]
    waits = [row["next_attempt_at"] and (row["next_attempt_at"] - START).total_seconds() for row in rows]
    assert waits == [None, 5, 7.5, None, None, 1, 60]
    assert [row["completed_at"] for row in rows] == [START, None, None, START, START, None, None]
    assert [row["lease_token"] for row in rows] == [None] * 6 + [claim.token]


async def test_a_row_is_dead_lettered_after_its_further_tries(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    for failures in range(2):
        claim = await outbox.claim()
        assert claim.rows[0].failure_count == failures
        assert (await outbox.retry(claim)).retried == claim.sequences
        outbox.advance(5)
    claim = await outbox.claim()
    report = await outbox.retry(claim)
    assert (report.retried, report.dead_lettered) == ((), claim.sequences)
    row = await outbox.row(one)
    assert (row["state"], row["failure_count"], row["error_code"]) == ("dead_lettered", 3, "nack")
    assert row["next_attempt_at"] is None


async def test_one_batch_retries_some_and_gives_up_others(outbox: Outbox) -> None:
    old = await outbox.append(*messages(2))
    for _ in range(2):
        await outbox.retry(await outbox.claim())
        outbox.advance(5)
    new = await outbox.append(*messages(2))
    claim = await outbox.claim()
    report = await outbox.retry(claim)
    assert report.dead_lettered == claim.sequences[:2]
    assert report.retried == claim.sequences[2:]
    assert await outbox.states([*old, *new]) == ["dead_lettered"] * 2 + ["pending"] * 2


async def test_without_further_tries_the_first_failure_is_the_last(engine: AsyncEngine) -> None:
    outbox = await Outbox(engine, OutboxOptions(max_retry_attempts=0)).create()
    await outbox.append(message())
    claim = await outbox.claim()
    assert (await outbox.retry(claim)).dead_lettered == claim.sequences


async def test_an_outage_costs_no_attempt_however_long_it_lasts(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    for _ in range(50):
        claim = await outbox.claim()
        assert [row.failure_count for row in claim.rows] == [0]
        await outbox.settle(claim, Settlement.release(claim.sequences[0], delay_seconds=60))
        outbox.advance(60)
    assert await outbox.states([one]) == ["pending"]


async def test_a_success_clears_the_error_of_the_try_before(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    await outbox.retry(await outbox.claim())
    assert (await outbox.row(one))["error_code"] == "nack"
    outbox.advance(5)
    await outbox.publish(await outbox.claim())
    assert (await outbox.row(one))["error_code"] is None


async def test_settling_twice_reports_the_second_time_as_lost(outbox: Outbox) -> None:
    await outbox.append(*messages(2))
    claim = await outbox.claim()
    assert (await outbox.publish(claim)).published == claim.sequences
    assert (await outbox.publish(claim)).lost == claim.sequences


async def test_a_row_named_twice_is_refused_before_anything_is_written(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    claim = await outbox.claim()
    settlements = [Settlement.published(claim.sequences[0]), Settlement.release(claim.sequences[0])]
    with pytest.raises(ValueError, match="name one twice"):
        await outbox.settle(claim, *settlements)
    assert await outbox.states([one]) == ["publishing"]


async def test_more_rows_than_a_batch_are_settled_all(outbox: Outbox) -> None:
    await outbox.append(*messages(1500))
    claims = [await outbox.claim(1000), await outbox.claim(1000)]
    for claim in claims:
        assert (await outbox.retry(claim, delay_seconds=0)).lost == ()
    again = await outbox.claim(1000)
    sequences = {*again.sequences, *(await outbox.claim(1000)).sequences}
    assert len(sequences) == 1500


async def test_error_details_are_cut_to_what_the_column_holds(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    claim = await outbox.claim()
    detail = "\x00\ud800" + "😀" * 600
    await outbox.settle(
        claim, Settlement.dead_letter(claim.sequences[0], error_code="x" * 64, error_detail=detail)
    )
    assert (await outbox.row(one))["error_detail"] == "\ufffd\ufffd" + "😀" * 499


async def test_published_rows_are_not_claimed_again(outbox: Outbox) -> None:
    await outbox.append(*messages(3))
    await outbox.publish(await outbox.claim())
    outbox.advance(10_000)
    assert ids(await outbox.claim()) == []
