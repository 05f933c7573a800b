"""Events are stored once, in the caller's transaction, whatever was stored before."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import EventConflictError, EventVanishedError
from tests.support.outbox import SEVERAL_WRITERS, Outbox, message, messages
from uow.errors import TryAgainError
from uow.message import Message
from uow.sql.dialect import database_of
from uow.ticks import MAXIMUM_TICKS, UtcInstant


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine).create()


async def test_a_message_comes_back_byte_for_byte(outbox: Outbox) -> None:
    odd = message(
        key="Kunde Zoë 😀",
        contract_name="bestellung.größe",
        contract_version=2_147_483_647,
        occurred_at=UtcInstant(MAXIMUM_TICKS),
        payload='{"name":"Zoë 😀","text":"\\u0000 % \'quoted\' \\\\ :x"}',
        correlation_id="c" * 200,
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        tracestate="k=v," * 128,
    )
    await outbox.append(odd)
    (claimed,) = (await outbox.claim()).rows
    assert claimed.message == odd
    found = await outbox.step(outbox.store.find, odd.id)
    assert found is not None
    assert found.message == odd


async def test_events_are_enqueued_in_the_order_given(outbox: Outbox) -> None:
    added = await outbox.append(*messages(50))
    claim = await outbox.claim()
    assert [row.message for row in claim.rows] == added


async def test_an_equal_event_stored_before_adds_nothing(outbox: Outbox) -> None:
    (old,) = await outbox.append(message(correlation_id="first"))
    again = replace(old, correlation_id="second", traceparent="t", ordering_key="other")
    new = message()
    report = await outbox.step(outbox.store.append, [again, new])
    assert report.added == 1
    assert (await outbox.row(old))["correlation_id"] == "first"
    assert len((await outbox.claim()).rows) == 2


async def test_a_published_event_is_absorbed_too(outbox: Outbox) -> None:
    (old,) = await outbox.append(message())
    await outbox.publish(await outbox.claim())
    assert (await outbox.step(outbox.store.append, [old])).added == 0
    assert await outbox.states([old]) == ["published"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("contract_name", "orders.Placed"),
        ("contract_version", 2),
        ("occurred_at", UtcInstant(639_028_224_000_000_008)),
        ("payload", '{"amount":"12.5"}'),
    ],
)
async def test_other_content_under_a_stored_id_is_a_conflict_and_nothing_is_kept(
    outbox: Outbox, field: str, value: object
) -> None:
    (old,) = await outbox.append(message())
    new = message()
    changed = replace(old, **{field: value})  # type: ignore[arg-type]
    with pytest.raises(EventConflictError) as caught:
        await outbox.step(outbox.store.append, [new, changed])
    assert caught.value.event_id == old.id
    assert caught.value.differs == (field,)
    assert "12.5" not in str(caught.value)
    assert await outbox.step(outbox.store.find, new.id) is None


async def test_one_id_twice_in_a_call_is_one_row_or_a_conflict(outbox: Outbox) -> None:
    one = message()
    assert (await outbox.step(outbox.store.append, [one, replace(one, tracestate="x")])).added == 1
    other = message()
    with pytest.raises(EventConflictError):
        await outbox.step(outbox.store.append, [other, replace(other, payload="{}")])


async def test_a_conflict_leaves_the_callers_transaction_usable(outbox: Outbox) -> None:
    """On PostgreSQL a database error would abort it; only the caller decides to roll back."""
    (old,) = await outbox.append(message())
    new = message()

    async with outbox.engine.connect() as connection, connection.begin():
        with pytest.raises(EventConflictError):
            await connection.run_sync(outbox.store.append, [replace(old, payload="{}")])
        await connection.run_sync(outbox.store.append, [old, new])
        count = await connection.scalar(select(func.count()).select_from(outbox.table))
    assert count == 2
    assert await outbox.step(outbox.store.find, new.id) is not None


async def test_the_transaction_id_comes_with_the_insert_where_it_can_be_asked_later(outbox: Outbox) -> None:
    report = await outbox.step(outbox.store.append, messages(3))
    if database_of(outbox.engine).transaction_status:
        assert report.transaction_id is not None
        asked = text("SELECT pg_xact_status(CAST(CAST(:id AS text) AS xid8))")
        status = await outbox.step(
            lambda connection: connection.execute(asked, {"id": report.transaction_id}).scalar()
        )
        assert status == "committed"
    else:
        assert report.transaction_id is None


async def test_an_event_that_can_neither_be_added_nor_found_is_an_error_that_may_be_tried_again(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a clean-up deletes each time the row that the insert met."""
    monkeypatch.setattr("outbox.append._insert", lambda *_: ((), None))
    with pytest.raises(EventVanishedError, match="2 events could neither be added nor found") as caught:
        await outbox.step(outbox.store.append, messages(2))
    assert isinstance(caught.value, TryAgainError)


async def test_more_rows_than_one_statement_can_carry_are_stored_all(outbox: Outbox) -> None:
    many = messages(4200)
    assert (await outbox.step(outbox.store.append, many)).added == 4200
    assert (await outbox.step(outbox.store.append, many)).added == 0
    assert (await outbox.step(outbox.store.counts)).pending == 4200


async def test_large_payloads_are_not_sent_in_one_packet(outbox: Outbox) -> None:
    """MariaDB refuses a packet over 16 MiB by default; 24 events of 1 MiB are more."""
    large = [message(payload='"' + "x" * 1_048_574 + '"') for _ in range(24)]
    assert (await outbox.step(outbox.store.append, large)).added == 24


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
class TestTwoTransactions:
    """Two units insert one event at the same moment."""

    async def _append_while_another_is_open(
        self, outbox: Outbox, first: Message, second: Message, *, commit: bool
    ) -> int:
        """What the second transaction added, in the isolation level that applications use."""

        async def append_later() -> int:
            async with outbox.engine.begin() as connection:
                # A read before: under REPEATABLE READ the snapshot is older than the other's commit.
                await connection.scalar(select(func.count()).select_from(outbox.table))
                started.set()
                report = await connection.run_sync(outbox.store.append, [second, message()])
                return report.added

        started = asyncio.Event()
        async with outbox.engine.connect() as connection:
            await connection.run_sync(outbox.store.append, [first])
            later = asyncio.create_task(append_later())
            await started.wait()
            done, _ = await asyncio.wait([later], timeout=0.2)
            assert not done, "the second transaction must wait for the first"
            await (connection.commit() if commit else connection.rollback())
        return await later

    async def test_equal_content_waits_and_is_absorbed(self, outbox: Outbox) -> None:
        one = message()
        assert await self._append_while_another_is_open(outbox, one, one, commit=True) == 1

    async def test_the_event_is_added_when_the_first_rolls_back(self, outbox: Outbox) -> None:
        one = message()
        assert await self._append_while_another_is_open(outbox, one, one, commit=False) == 2

    async def test_other_content_is_a_conflict_and_keeps_nothing_of_the_second(self, outbox: Outbox) -> None:
        one = message()
        with pytest.raises(EventConflictError):
            await self._append_while_another_is_open(outbox, one, replace(one, payload="{}"), commit=True)
        assert (await outbox.step(outbox.store.counts)).pending == 1
