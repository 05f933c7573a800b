"""Relays, business transactions and operators at one table at once: nothing shared, nobody blocked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from outbox import Claim, OutboxOptions, Settlement
from tests.support.databases import engine_for
from tests.support.outbox import SEVERAL_WRITERS, Outbox, ids, message, messages
from uow.sql.clock import DatabaseClock
from uow.sql.dialect import database_of

_IMPATIENT = {"postgresql": "SET lock_timeout = '1s'", "mysql": "SET innodb_lock_wait_timeout = 1"}


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine, OutboxOptions(batch_size=50)).create()


@contextlib.asynccontextmanager
async def _impatient(outbox: Outbox, *, business: bool = False) -> AsyncIterator[AsyncConnection]:
    """A connection that fails rather than wait for a lock; a relay's, or with the engine's own isolation."""
    isolation = None if business else database_of(outbox.engine).claim_isolation
    options = {"isolation_level": isolation} if isolation else {}
    async with outbox.engine.execution_options(**options).connect() as connection:
        await connection.execute(text(_IMPATIENT[outbox.engine.dialect.name]))
        await connection.commit()
        try:
            yield connection
        finally:
            await connection.rollback()
            await connection.invalidate()


async def test_eight_relays_share_a_thousand_rows_without_sharing_any(engine: AsyncEngine) -> None:
    outbox = await Outbox(engine, OutboxOptions(batch_size=37), clock=DatabaseClock()).create()
    added = await outbox.append(*messages(1000))

    async def relay() -> list[Claim]:
        claims = []
        while (claim := await outbox.claim()).rows:
            claims.append(claim)
            await outbox.publish(claim)
        return claims

    claims = [claim for of_one in await asyncio.gather(*(relay() for _ in range(8))) for claim in of_one]
    claimed = [event_id for claim in claims for event_id in ids(claim)]
    assert len(claimed) == 1000
    assert set(claimed) == {each.id for each in added}
    assert len({claim.token for claim in claims}) == len(claims)


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
async def test_relays_share_the_work_whatever_isolation_the_application_has_chosen(database_url: str) -> None:
    """Under SERIALIZABLE, claims would fail for one another; a step chooses its own isolation."""
    async with engine_for(database_url, isolation_level="SERIALIZABLE") as engine:
        outbox = await Outbox(engine, OutboxOptions(batch_size=20), clock=DatabaseClock()).create()
        added = await outbox.append(*messages(400))
        claimed: list[object] = []

        async def relay() -> None:
            while (claim := await outbox.claim()).rows:
                claimed.extend(ids(claim))
                await outbox.publish(claim)

        await asyncio.gather(*(relay() for _ in range(6)))
    assert sorted(map(str, claimed)) == sorted(str(each.id) for each in added)


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
class TestWithoutWaiting:
    """While one transaction is open, others go on; a connection that had to wait would fail."""

    async def test_a_claim_takes_other_rows_while_another_claim_is_open(self, outbox: Outbox) -> None:
        added = await outbox.append(*messages(120))
        async with _impatient(outbox) as first, _impatient(outbox) as second, _impatient(outbox) as third:
            claims = [await each.run_sync(outbox.store.claim) for each in (first, second, third)]
            assert [len(claim.rows) for claim in claims] == [50, 50, 20]
            assert [event_id for claim in claims for event_id in ids(claim)] == [each.id for each in added]
            await second.commit()
            await first.rollback()
            again = await third.run_sync(outbox.store.claim)
            assert ids(again) == [each.id for each in added[:50]]

    async def test_events_are_enqueued_while_a_claim_is_open(self, outbox: Outbox) -> None:
        await outbox.append(*messages(10), *messages(3, key="a"))
        async with _impatient(outbox) as relay, _impatient(outbox, business=True) as business:
            await relay.run_sync(outbox.store.claim)
            report = await business.run_sync(outbox.store.append, [*messages(5), message(key="a")])
            assert report.added == 6
            await business.commit()

    async def test_a_claim_finds_what_is_committed_while_a_business_transaction_is_open(
        self, outbox: Outbox
    ) -> None:
        """Its rows have the lower sequence numbers; they are found once it has committed."""
        async with _impatient(outbox, business=True) as business, _impatient(outbox) as relay:
            early = messages(5)
            await business.run_sync(outbox.store.append, early)
            late = await outbox.append(*messages(5))
            first = await relay.run_sync(outbox.store.claim)
            assert ids(first) == [each.id for each in late]
            await relay.commit()
            await business.commit()
            second = await relay.run_sync(outbox.store.claim)
            assert ids(second) == [each.id for each in early]
            assert max(second.sequences) < min(first.sequences)

    async def test_a_batch_is_settled_and_renewed_while_a_claim_is_open(self, outbox: Outbox) -> None:
        await outbox.append(*messages(80))
        mine = await outbox.claim()
        async with _impatient(outbox) as other, _impatient(outbox) as relay:
            await other.run_sync(outbox.store.claim)
            assert await relay.run_sync(outbox.store.renew, mine.token, mine.sequences) == frozenset()
            report = await relay.run_sync(
                outbox.store.settle,
                mine.token,
                [
                    *(Settlement.published(each) for each in mine.sequences[:20]),
                    *(
                        Settlement.retry(each, delay_seconds=each, error_code="nack")
                        for each in mine.sequences[20:]
                    ),
                ],
            )
            assert report.lost == ()

    async def test_a_claim_goes_on_while_a_settlement_is_open(self, outbox: Outbox) -> None:
        await outbox.append(*messages(80))
        mine = await outbox.claim()
        async with _impatient(outbox) as relay, _impatient(outbox) as other:
            settlements = [Settlement.release(each) for each in mine.sequences]
            await relay.run_sync(outbox.store.settle, mine.token, settlements)
            assert len((await other.run_sync(outbox.store.claim)).rows) == 30
            assert (await other.run_sync(outbox.store.claim_suspect)).rows == ()

    async def test_an_operator_replays_while_a_claim_is_open(self, outbox: Outbox) -> None:
        dead = await outbox.append(*messages(3))
        await outbox.dead_letter(await outbox.claim())
        await outbox.append(*messages(10))
        async with _impatient(outbox) as relay, _impatient(outbox) as operator:
            await relay.run_sync(outbox.store.claim)
            await operator.run_sync(outbox.store.replay, [dead[0].id])
            await operator.run_sync(outbox.store.discard, [dead[1].id])
            assert (await operator.run_sync(outbox.store.counts)).dead_lettered == 1


async def test_relays_enqueueing_units_and_operators_end_with_every_event_published_once(
    engine: AsyncEngine,
) -> None:
    """Everything at once on one table, with faults that are retried; nothing is lost or doubled."""
    outbox = await Outbox(engine, OutboxOptions(batch_size=20), clock=DatabaseClock()).create()
    published: list[object] = []
    enqueued: list[object] = []
    replayed: set[object] = set()
    producing = 3

    async def unit(number: int) -> None:
        nonlocal producing
        for round_ in range(12):
            key = f"k{number}" if round_ % 3 == 0 else None
            enqueued.extend(each.id for each in await outbox.append(*messages(5, key=key)))
        producing -= 1

    async def relay() -> None:
        while producing or len(published) < len(enqueued):
            claim = await outbox.claim()
            fate = [_fate(each) for each in claim.sequences]
            report = await outbox.settle(claim, *fate)
            done = {*report.published}
            assert report.lost == ()
            published.extend(row.message.id for row in claim.rows if row.sequence in done)
            if not claim.rows:
                await asyncio.sleep(0.01)

    def _fate(sequence: int) -> Settlement:
        if sequence % 7 == 3 and sequence not in replayed:
            replayed.add(sequence)
            return Settlement.dead_letter(sequence, error_code="unroutable")
        if sequence % 7 == 5 and sequence not in replayed:
            replayed.add(sequence)
            return Settlement.retry(sequence, delay_seconds=0.01, error_code="nack")
        return Settlement.published(sequence)

    async def operator() -> None:
        while producing or len(published) < len(enqueued):
            failed = await outbox.step(outbox.store.list_failed)
            await outbox.step(outbox.store.replay, [each.event_id for each in failed])
            await outbox.step(outbox.store.cleanup)
            await asyncio.sleep(0.01)

    work = [unit(1), unit(2), unit(3), relay(), relay(), relay(), operator()]
    await asyncio.wait_for(asyncio.gather(*work), timeout=60)
    assert sorted(map(str, published)) == sorted(map(str, enqueued))
    assert len(published) == 180
