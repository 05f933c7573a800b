"""What operators do with dead-lettered events: list, find, replay, discard, schedule again."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import (
    DiscardResult,
    EventConflictError,
    FailedEvent,
    FailedEventCursor,
    FailedEventFilter,
    ReplayResult,
)
from tests.support.outbox import START, Outbox, ids, message, messages
from uow.message import Message


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine).create()


async def _dead(outbox: Outbox, *some: Message, error_code: str = "unroutable") -> list[Message]:
    await outbox.append(*some)
    claim = await outbox.claim(1000)
    assert {*ids(claim)} == {each.id for each in some}
    await outbox.dead_letter(claim, error_code)
    return list(some)


async def _list(outbox: Outbox, only: FailedEventFilter | None = None, limit: int = 100) -> list[FailedEvent]:
    """All pages."""
    events: list[FailedEvent] = []
    cursor: FailedEventCursor | None = None
    while page := await outbox.step(outbox.store.list_failed, only, cursor, limit):
        assert len(page) <= limit
        events += page
        cursor = page[-1].cursor
    return events


async def test_a_replayed_event_is_as_it_was_when_it_was_enqueued(outbox: Outbox) -> None:
    (one,) = await _dead(outbox, message(key="a", traceparent="t"))
    before = dict(await outbox.row(one))
    outbox.advance(100)
    assert await outbox.step(outbox.store.replay, [one.id]) == {one.id: ReplayResult.ACCEPTED}
    row = await outbox.row(one)
    changed = {name: value for name, value in row.items() if value != before[name]}
    assert changed == {
        "state": "pending",
        "failure_count": 0,
        "next_attempt_at": START + timedelta(seconds=100),
        "completed_at": None,
        "error_code": None,
    }
    (claimed,) = (await outbox.claim()).rows
    assert claimed.message == one
    assert claimed.failure_count == 0


async def test_replay_answers_for_each_event_and_schedules_it_once(outbox: Outbox) -> None:
    (dead,) = await _dead(outbox, message())
    pending, publishing, published = messages(3)
    await outbox.append(published)
    await outbox.publish(await outbox.claim())
    await outbox.append(publishing)
    await outbox.claim()
    await outbox.append(pending)
    nobody = uuid4()
    asked = [dead.id, pending.id, publishing.id, published.id, nobody]
    answers = await outbox.step(outbox.store.replay, asked)
    assert list(answers) == asked
    assert list(answers.values()) == [
        ReplayResult.ACCEPTED,
        ReplayResult.INVALID_STATE,
        ReplayResult.INVALID_STATE,
        ReplayResult.INVALID_STATE,
        ReplayResult.NOT_FOUND,
    ]
    assert await outbox.step(outbox.store.replay, [dead.id]) == {dead.id: ReplayResult.INVALID_STATE}
    assert await outbox.step(outbox.store.replay, []) == {}
    assert await outbox.states([pending, publishing, published]) == ["pending", "publishing", "published"]


async def test_of_two_replays_at_once_one_is_accepted(outbox: Outbox) -> None:
    dead = await _dead(outbox, *messages(5))
    asked = [each.id for each in dead]
    answers = await asyncio.gather(*(outbox.step(outbox.store.replay, asked) for _ in range(4)))
    for event_id in asked:
        results = [answer[event_id] for answer in answers]
        assert results.count(ReplayResult.ACCEPTED) == 1
        assert results.count(ReplayResult.INVALID_STATE) == 3


async def test_a_discarded_event_stays_and_is_neither_listed_nor_replayed(outbox: Outbox) -> None:
    (dead,) = await _dead(outbox, message(key="a"))
    nobody = uuid4()
    outbox.advance(10)
    assert await outbox.step(outbox.store.discard, [dead.id, nobody]) == {
        dead.id: DiscardResult.ACCEPTED,
        nobody: DiscardResult.NOT_FOUND,
    }
    found = await outbox.step(outbox.store.find, dead.id)
    assert found is not None
    assert (found.state, found.error_code, found.message) == ("discarded", "unroutable", dead)
    assert found.completed_at == START + timedelta(seconds=10)
    assert await outbox.step(outbox.store.discard, [dead.id]) == {dead.id: DiscardResult.INVALID_STATE}
    assert await outbox.step(outbox.store.replay, [dead.id]) == {dead.id: ReplayResult.INVALID_STATE}
    assert await _list(outbox) == []


async def test_scheduling_again_adds_an_event_that_is_gone(outbox: Outbox) -> None:
    one = message()
    await outbox.step(outbox.store.schedule_again, one)
    (claimed,) = (await outbox.claim()).rows
    assert claimed.message == one


@pytest.mark.parametrize("state", ["pending", "publishing", "published", "dead_lettered", "discarded"])
async def test_scheduling_again_resets_an_event_in_any_state(outbox: Outbox, state: str) -> None:
    one = message(key="a", correlation_id="kept")
    await outbox.append(one)
    claim = await outbox.claim()
    match state:
        case "pending":
            await outbox.retry(claim, delay_seconds=500)
        case "published":
            await outbox.publish(claim)
        case "dead_lettered" | "discarded":
            await outbox.dead_letter(claim)
    if state == "discarded":
        await outbox.step(outbox.store.discard, [one.id])
    assert await outbox.states([one]) == [state]

    await outbox.step(outbox.store.schedule_again, replace(one, ordering_key=None, correlation_id=None))
    again = await outbox.claim()
    assert [row.message for row in again.rows] == [one]
    assert (again.rows[0].failure_count, (await outbox.row(one))["claim_count"]) == (0, 1)


async def test_a_publisher_in_flight_is_fenced_off_by_scheduling_again(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    in_flight = await outbox.claim()
    await outbox.step(outbox.store.schedule_again, one)
    assert await outbox.step(outbox.store.renew, in_flight.token, in_flight.sequences) == {
        *in_flight.sequences
    }
    assert (await outbox.publish(in_flight)).lost == in_flight.sequences
    assert await outbox.states([one]) == ["pending"]


async def test_scheduling_other_content_under_the_id_is_a_conflict(outbox: Outbox) -> None:
    (one,) = await outbox.append(message())
    with pytest.raises(EventConflictError):
        await outbox.step(outbox.store.schedule_again, replace(one, payload="{}"))


async def test_pages_give_each_failure_once_the_latest_first(outbox: Outbox) -> None:
    """Many fail in one moment, so that the event id decides; its order is that of its digits."""
    dead: list[Message] = []
    for _ in range(3):
        dead += await _dead(outbox, *messages(7))
        outbox.advance(0.000001)
    expected = [*dead[14:], *dead[7:14], *dead[:7]]
    for first in (0, 7, 14):
        expected[first : first + 7] = sorted(
            expected[first : first + 7], key=lambda each: each.id.hex, reverse=True
        )
    for limit in (1, 4, 7, 21, 1000):
        assert [each.event_id for each in await _list(outbox, limit=limit)] == [each.id for each in expected]
    assert await outbox.step(outbox.store.count_failed) == 21


async def test_what_is_replayed_or_fails_between_two_pages_shifts_nothing(outbox: Outbox) -> None:
    for _ in range(6):
        await _dead(outbox, message())
        outbox.advance(1)
    listed = await _list(outbox)
    first = await outbox.step(outbox.store.list_failed, None, None, 2)
    await outbox.step(outbox.store.replay, [listed[1].event_id, listed[2].event_id])
    await outbox.publish(await outbox.claim())
    await _dead(outbox, message())
    rest = await outbox.step(outbox.store.list_failed, None, first[-1].cursor, 100)
    assert [*first, *rest] == [*listed[:2], *listed[3:]]


async def test_filters_hold_together_and_names_compare_exactly(outbox: Outbox) -> None:
    await _dead(outbox, message(contract_name="orders.placed"), error_code="nack")
    outbox.advance(10)
    await _dead(outbox, message(contract_name="Orders.placed"), error_code="nack")
    outbox.advance(10)
    await _dead(outbox, message(contract_name="orders.placed", contract_version=2), error_code="unroutable")

    async def found(**only: object) -> list[tuple[str, int, str]]:
        events = await _list(outbox, FailedEventFilter(**only))  # type: ignore[arg-type]
        assert await outbox.step(outbox.store.count_failed, FailedEventFilter(**only)) == len(events)  # type: ignore[arg-type]
        return [(each.contract_name, each.contract_version, each.error_code) for each in events]

    late = ("orders.placed", 2, "unroutable")
    middle = ("Orders.placed", 1, "nack")
    early = ("orders.placed", 1, "nack")
    assert await found() == [late, middle, early]
    assert await found(contract_name="orders.placed") == [late, early]
    assert await found(contract_name="orders.placed", contract_version=1) == [early]
    assert await found(error_code="nack") == [middle, early]
    assert await found(failed_from=START + timedelta(seconds=10)) == [late, middle]
    assert await found(failed_before=START + timedelta(seconds=10)) == [early]
    assert await found(failed_from=START, failed_before=START + timedelta(seconds=20), error_code="x") == []


async def test_a_listed_failure_has_metadata_and_no_payload(outbox: Outbox) -> None:
    (one,) = await _dead(outbox, message(payload='{"secret":1}'))
    (listed,) = await _list(outbox)
    assert listed == FailedEvent(
        event_id=one.id,
        contract_name="orders.placed",
        contract_version=1,
        failed_at=START,
        attempts=1,
        error_code="unroutable",
        error_detail=None,
    )
    record = await outbox.step(outbox.store.find, one.id)
    claim = await outbox.claim()
    assert "secret" not in repr([listed, record, claim])


@pytest.mark.parametrize("limit", [0, 1001])
async def test_a_page_holds_1_to_1000(outbox: Outbox, limit: int) -> None:
    with pytest.raises(ValueError, match=r"limit must be between 1 and 1000"):
        await outbox.step(outbox.store.list_failed, None, None, limit)


async def test_an_unknown_event_is_not_found(outbox: Outbox) -> None:
    assert await outbox.step(outbox.store.find, uuid4()) is None
