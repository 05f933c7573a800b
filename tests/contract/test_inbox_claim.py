"""The inbox's pump: handing over, claiming, suspects; the same on every database."""

import asyncio
from dataclasses import replace

from inbox.acquisition import AcquireStatus
from inbox.options import InboxOptions
from inbox.receipt import AcquiredReceipt, ReceiptKey
from inbox.state import ReceiptState
from tests.support.inbox import Inbox, message
from uow.message import Message

pytest_plugins = ("tests.support.inbox_fixture",)


def ids(receipts: list[AcquiredReceipt]) -> list[object]:
    return [receipt.message.id for receipt in receipts]


async def record(inbox: Inbox, *messages: Message, consumers: tuple[str, ...] = ("billing",)) -> None:
    pairs = [(consumer, each) for each in messages for consumer in consumers]
    report = await inbox.step(inbox.store.record, pairs)
    assert (report.recorded, report.conflicts) == (len(pairs), ())


async def test_what_is_handed_over_is_claimed_first_come_first_served(inbox: Inbox) -> None:
    batch = [message(correlation_id=f"c-{number}") for number in range(5)]
    for each in batch:
        await record(inbox, each, consumers=("billing", "shipping"))
        inbox.clock.advance(1)
    claimed = await inbox.claim("billing", limit=3)
    assert [receipt.message for receipt in claimed] == batch[:3]
    assert {receipt.consumer for receipt in claimed} == {"billing"}
    assert {receipt.attempt for receipt in claimed} == {1}
    assert ids(await inbox.claim("billing")) == [each.id for each in batch[3:]]
    assert await inbox.claim("billing") == []
    assert ids(await inbox.claim("shipping")) == [each.id for each in batch]


async def test_handing_over_again_changes_nothing_and_other_content_is_told(inbox: Inbox) -> None:
    same, other, new = message(), message(), message()
    await record(inbox, same, other)
    (receipt,) = await inbox.claim("billing", limit=1)
    await inbox.complete(receipt)
    before = await inbox.rows()
    changed = replace(other, payload="{}")
    report = await inbox.step(
        inbox.store.record, [("billing", same), ("billing", changed), ("billing", new), ("billing", new)]
    )
    assert report.recorded == 1
    assert report.conflicts == (ReceiptKey(other.id, "billing"),)
    after = await inbox.rows()
    assert {key: after[key] for key in before} == before
    assert after.keys() - before.keys() == {ReceiptKey(new.id, "billing")}


async def test_two_contents_of_one_id_in_one_hand_over_are_a_conflict(inbox: Inbox) -> None:
    one = message()
    report = await inbox.step(
        inbox.store.record, [("billing", one), ("billing", replace(one, payload="{}")), ("audit", one)]
    )
    assert (report.recorded, report.conflicts) == (2, (ReceiptKey(one.id, "billing"),))


async def test_an_empty_hand_over_and_an_empty_claim_ask_nothing(inbox: Inbox) -> None:
    assert (await inbox.step(inbox.store.record, [])).recorded == 0
    assert await inbox.claim() == []
    assert await inbox.step(inbox.store.claim, {"billing": 0}, limit=5) == []
    assert await inbox.step(inbox.store.claim_suspect, []) is None


async def test_a_mapping_limits_each_consumer_and_the_limit_all_of_them(inbox: Inbox) -> None:
    batch = []
    for _ in range(10):
        batch.append(message())
        await record(inbox, batch[-1], consumers=("billing", "shipping"))
        inbox.clock.advance(1)
    claimed = await inbox.step(inbox.store.claim, {"billing": 2, "shipping": 9}, limit=100)
    assert sorted(receipt.consumer for receipt in claimed) == ["billing"] * 2 + ["shipping"] * 9
    assert {receipt.message.id for receipt in claimed if receipt.consumer == "billing"} == {
        each.id for each in batch[:2]
    }
    rest = await inbox.step(inbox.store.claim, ["billing", "shipping"], limit=4)
    assert len(rest) == 4
    assert [receipt.message.id for receipt in rest] == [each.id for each in batch[2:6]], "the longest due"


async def test_retries_and_expired_leases_are_claimed_at_their_time_and_not_before(inbox: Inbox) -> None:
    retried, expired = message(), message()
    await record(inbox, retried, expired)
    for receipt in await inbox.claim("billing"):
        if receipt.message.id == retried.id:
            await inbox.fail(receipt, delay_seconds=20)
    inbox.clock.advance(19.999)
    assert await inbox.claim("billing") == []
    inbox.clock.advance(0.001)
    assert ids(await inbox.claim("billing")) == [retried.id]
    inbox.clock.advance(39.999)
    assert await inbox.claim("billing") == []
    inbox.clock.advance(0.001)
    (again,) = await inbox.claim("billing")
    assert (again.message.id, again.attempt) == (expired.id, 2)


async def test_claims_at_once_share_nothing(inbox: Inbox) -> None:
    batch = [message() for _ in range(60)]
    await record(inbox, *batch)
    claims = await asyncio.gather(*(inbox.claim("billing", limit=20) for _ in range(6)))
    claimed = [receipt.message.id for receipts in claims for receipt in receipts]
    claimed += ids(await inbox.claim("billing"))  # SKIP LOCKED may have left some of them aside
    assert sorted(claimed) == sorted(each.id for each in batch)


async def test_a_claim_and_an_acquisition_at_once_share_nothing(inbox: Inbox) -> None:
    batch = [message() for _ in range(40)]
    await record(inbox, *batch)
    claimed, answers = await asyncio.gather(inbox.claim("billing"), inbox.acquire("billing", *batch))
    taken = ids(claimed) + [answer.receipt.message.id for answer in answers if answer.receipt]
    taken += ids(await inbox.claim("billing"))
    assert sorted(taken) == sorted(each.id for each in batch)


async def crash(inbox: Inbox, *, seconds: float = 60) -> None:
    """Nothing is told; the leases run out."""
    inbox.clock.advance(seconds)


async def test_a_suspect_is_left_to_run_alone_and_its_neighbours_are_not_buried(inbox: Inbox) -> None:
    inbox.options = InboxOptions(max_retry_attempts=3)
    killer, healthy = message(), message()
    await record(inbox, killer, healthy)
    for _ in range(2):
        assert len(await inbox.claim("billing")) == 2
        await crash(inbox)
    assert await inbox.claim("billing") == []
    assert await inbox.status("billing", killer) is AcquireStatus.NOT_DUE
    assert await inbox.step(inbox.store.bury, "billing", max_retry_attempts=3) == []
    completed = []
    buried: list[ReceiptKey] = []
    while receipt := await inbox.step(inbox.store.claim_suspect, ["billing"]):
        if receipt.message.id == healthy.id:
            assert await inbox.complete(receipt)
            completed.append(receipt.attempt)
        else:
            await crash(inbox)
        buried += await inbox.step(inbox.store.bury, "billing", max_retry_attempts=3)
    assert completed == [3]
    assert buried == [ReceiptKey(killer.id, "billing")]
    row = await inbox.row(buried[0])
    assert (row["state"], row["error_code"], row["attempt_count"]) == ("dead_lettered", "process_died", 4)
    assert row["completed_at"] == inbox.clock.moment
    assert await inbox.status("billing", killer) is AcquireStatus.DEAD_LETTERED


async def test_any_verdict_ends_the_suspicion(inbox: Inbox) -> None:
    one = message()
    for attempt in range(1, 8):
        receipt = await inbox.acquired("billing", one)
        assert receipt.attempt == attempt
        if attempt % 2:
            await crash(inbox)
        else:
            await inbox.fail(receipt, delay_seconds=0)


async def test_a_suspect_is_claimed_by_one_and_only_when_its_lease_expired(inbox: Inbox) -> None:
    one = message()
    await record(inbox, one)
    for _ in range(2):
        await inbox.claim("billing")
        await crash(inbox)
    claims = await asyncio.gather(
        *(inbox.step(inbox.store.claim_suspect, ["billing", "shipping"]) for _ in range(4))
    )
    (receipt,) = [claim for claim in claims if claim]
    assert (receipt.message, receipt.attempt) == (one, 3)
    inbox.clock.advance(59.999)
    assert await inbox.step(inbox.store.claim_suspect, ["billing"]) is None
    inbox.clock.advance(0.001)
    assert await inbox.step(inbox.store.claim_suspect, ["shipping"]) is None
    assert (await inbox.step(inbox.store.claim_suspect, ["billing"])).attempt == 4  # type: ignore[union-attr]


async def test_ten_restarts_dead_letter_nothing_healthy(inbox: Inbox) -> None:
    batch = [message() for _ in range(20)]
    await record(inbox, *batch)
    for _ in range(2):
        await inbox.claim("billing")
        await crash(inbox)
    for _ in range(8):  # each restart runs suspects alone, and this one is killed while the first runs
        assert await inbox.step(inbox.store.claim_suspect, ["billing"])
        await crash(inbox)
        assert await inbox.step(inbox.store.bury, "billing", max_retry_attempts=10) == []
    done = 0
    while receipt := await inbox.step(inbox.store.claim_suspect, ["billing"]):
        done += await inbox.complete(receipt)
    assert done == 20
    assert {row["state"] for row in (await inbox.rows()).values()} == {ReceiptState.PROCESSED.value}


async def test_a_held_receipt_is_never_buried(inbox: Inbox) -> None:
    one = message()
    await inbox.acquired("billing", one)
    assert await inbox.step(inbox.store.bury, "billing", max_retry_attempts=0) == []
    inbox.clock.advance(60)
    assert await inbox.step(inbox.store.bury, "audit", max_retry_attempts=0) == []
    assert await inbox.step(inbox.store.bury, "billing", max_retry_attempts=0) == [
        ReceiptKey(one.id, "billing")
    ]
