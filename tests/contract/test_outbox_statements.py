"""The number of statements of each verb does not grow with the batch."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import OutboxOptions, Settlement
from tests.support.outbox import Outbox, message, messages
from tests.support.statements import recorded_statements

BATCHES = (1, 50, 500)

# With UPDATE ... RETURNING a change is one statement; without it, rows are locked and read before it.
EXPECTED = {
    "append": {"sqlite": 1, "postgresql": 1, "mariadb": 1},
    "append again": {"sqlite": 2, "postgresql": 2, "mariadb": 2},
    "claim": {"sqlite": 1, "postgresql": 1, "mariadb": 2},
    "renew": {"sqlite": 1, "postgresql": 1, "mariadb": 1},
    "settle one outcome": {"sqlite": 1, "postgresql": 1, "mariadb": 2},
    "settle four outcomes": {"sqlite": 4, "postgresql": 4, "mariadb": 8},
    "counts": {"sqlite": 2, "postgresql": 2, "mariadb": 2},
    "replay": {"sqlite": 1, "postgresql": 1, "mariadb": 2},
    "list": {"sqlite": 1, "postgresql": 1, "mariadb": 1},
    "claim keyed": {"sqlite": 2, "postgresql": 2, "mariadb": 4},
    "publish keyed": {"sqlite": 3, "postgresql": 3, "mariadb": 4},
    "discard keyed": {"sqlite": 3, "postgresql": 3, "mariadb": 4},
    "look for suspects": {"sqlite": 1, "postgresql": 1, "mariadb": 1},
    "cleanup": {"sqlite": 1, "postgresql": 1, "mariadb": 2},
}


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine, OutboxOptions(published_retention_seconds=1)).create()


async def test_every_verb_takes_the_same_number_of_statements_for_any_batch(
    outbox: Outbox, database_kind: str
) -> None:
    numbers = {batch: await _numbers(outbox, batch) for batch in BATCHES}
    by_verb = {verb: [numbers[batch][verb] for batch in BATCHES] for verb in EXPECTED}
    assert by_verb == {verb: [of_kind[database_kind]] * len(BATCHES) for verb, of_kind in EXPECTED.items()}


async def _numbers(outbox: Outbox, batch: int) -> dict[str, int]:
    store, numbers = outbox.store, dict[str, int]()

    async def counted(verb: str, work: Awaitable[Any]) -> Any:
        with recorded_statements(outbox.engine) as statements:
            result = await work
        numbers[verb] = len(statements)
        return result

    added = messages(batch)
    await counted("append", outbox.append(*added))
    await counted("append again", outbox.append(*added))
    claim = await counted("claim", outbox.claim(batch))
    assert len(claim.rows) == batch
    await counted("renew", outbox.step(store.renew, claim.token, claim.sequences))
    await counted("counts", outbox.step(store.counts))
    await counted("settle one outcome", outbox.publish(claim))

    await outbox.append(*messages(max(4, batch)))
    claim = await outbox.claim(max(4, batch))
    report = await counted("settle four outcomes", outbox.settle(claim, *_four_outcomes(claim.sequences)))
    assert report.lost == ()
    await counted("list", outbox.step(store.list_failed))
    dead = [each.event_id for each in await outbox.step(store.list_failed)]
    await counted("replay", outbox.step(store.replay, dead))
    await _publish_all(outbox)

    await outbox.append(*(message(key=f"key {number // 3}") for number in range(3 * batch)))
    claim = await counted("claim keyed", outbox.claim(batch + 1))
    await counted("publish keyed", outbox.publish(claim))
    await outbox.dead_letter(await outbox.claim(batch))
    await _discard_and_clean(outbox, counted)
    await _publish_all(outbox)
    return numbers


def _four_outcomes(sequences: tuple[int, ...]) -> list[Settlement]:
    kinds = [
        Settlement.published,
        lambda each: Settlement.retry(each, delay_seconds=each, error_code="nack", error_detail=str(each)),
        lambda each: Settlement.dead_letter(each, error_code=f"code {each}"),
        lambda each: Settlement.release(each, delay_seconds=each / 7),
    ]
    return [kinds[index % 4](sequence) for index, sequence in enumerate(sequences)]


async def _discard_and_clean(outbox: Outbox, counted: Any) -> None:
    store = outbox.store
    dead = [each.event_id for each in await outbox.step(store.list_failed, limit=1000)]
    await counted("discard keyed", outbox.step(store.discard, dead))
    await counted("look for suspects", outbox.step(store.claim_suspect))
    outbox.advance(10)
    await counted("cleanup", outbox.step(store.cleanup, limit=1000))


async def _publish_all(outbox: Outbox) -> None:
    while True:
        outbox.advance(10_000)
        claim = await outbox.claim(1000)
        if not claim.rows:
            return
        await outbox.publish(claim)
        await asyncio.sleep(0)
