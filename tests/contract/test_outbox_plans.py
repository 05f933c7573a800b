"""The plans of the verbs that run all the time: by index, bounded by the batch, whatever is stored besides.

Each database holds thousands of published rows and more pending ones than a claim takes, many of them
behind one ordering key; the statistics are those of the time before the pending rows came.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from sqlalchemy import Connection, insert, text

from outbox import Claim, OutboxOptions, Settlement
from tests.support.databases import KINDS, engine_for, temporary_database_url
from tests.support.outbox import Outbox, message
from tests.support.plans import Plan, plans_of
from uow.sql.clock import DatabaseClock
from uow.sql.dialect import database_of
from uow.sql.step import run_step

PUBLISHED, DEAD, PENDING, HELD = 12_000, 200, 3_000, 1_000
BATCH = 500
_MARIADB_LOOKS_AHEAD = 8
_TABLE_AND_ALIASES = {
    "outbox_message", "due", "holder", "gone", "old", "row_put_off", "suspect",
}  # fmt: skip
_ANALYZE = {
    "sqlite": "ANALYZE",
    "postgresql": "ANALYZE outbox_message",
    "mysql": "ANALYZE TABLE outbox_message",
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def outbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Outbox]:
    """One filled database of each kind for all tests here; each of them undoes what it did."""
    directory = tmp_path_factory.mktemp("plans")
    async with temporary_database_url(request.param, directory) as url, engine_for(url) as engine:
        isolation = database_of(engine).claim_isolation
        if isolation is not None:
            engine = engine.execution_options(isolation_level=isolation)  # noqa: PLW2901
        outbox = await Outbox(engine, OutboxOptions(batch_size=BATCH), clock=DatabaseClock()).create()
        await run_step(engine, lambda connection: _fill_before(connection, outbox))
        async with engine.connect() as connection:
            await connection.execute(text(_ANALYZE[engine.dialect.name]))
            await connection.commit()
        await run_step(engine, lambda connection: _fill_after(connection, outbox))
        yield outbox


def _fill_before(connection: Connection, outbox: Outbox) -> None:
    """What the statistics know: a few rows are due, one key is frequent among those that hold one."""
    clock = outbox.clock
    long_ago, lately = clock.after(-8 * 86_400), clock.after(-86_400)
    _fill(connection, outbox, PUBLISHED // 2, "published", completed_at=long_ago)
    _fill(connection, outbox, PUBLISHED // 4, "published", completed_at=lately)
    _fill(connection, outbox, PUBLISHED // 4, "published", key="hot", completed_at=lately)
    _fill(connection, outbox, DEAD, "dead_lettered", completed_at=lately, error_code="nack")
    _fill(connection, outbox, 1, "pending", key="hot", next_attempt_at=clock.after(-30))
    _fill(connection, outbox, HELD, "pending", key="hot", next_attempt_at=clock.after(900))
    _fill(connection, outbox, BATCH // 2, "pending", next_attempt_at=clock.after(-5))


def _fill_after(connection: Connection, outbox: Outbox) -> None:
    due = outbox.clock.after(-10)
    _fill(connection, outbox, HELD, "pending", key="hot", next_attempt_at=due)
    _fill(connection, outbox, PENDING, "pending", next_attempt_at=due)


def _fill(
    connection: Connection, outbox: Outbox, count: int, state: str, key: str | None = None, **values: Any
) -> None:
    template = message()
    fixed = {
        "contract_name": template.contract_name,
        "contract_version": 1,
        "occurred_at": template.occurred_at,
        "payload": '"' + "x" * 200 + '"',
        "ordering_key": key,
        "holding_key": key if state == "pending" else None,
        "state": state,
        "failure_count": 0,
        "claim_count": 0,
    }
    statement = insert(outbox.table).values(created_at=outbox.clock.after(-10), **values)
    rows = [{**fixed, "event_id": message().id} for _ in range(count)]
    connection.execute(statement.returning(outbox.table.c.sequence), rows)


async def _check(
    outbox: Outbox,
    work: Callable[[Connection], Any],
    *,
    most_rows: int,
    before: Callable[[Connection], Any] | None = None,
) -> None:
    """No step of any statement of `work` reads more than `most_rows` rows of the table, or all of it."""
    for plan in await plans_of(outbox.engine, work, before=before):
        match outbox.engine.dialect.name:
            case "postgresql":
                _check_postgresql(plan, most_rows)
            case "sqlite":
                _check_sqlite(plan)
            case _:
                _check_mariadb(plan, most_rows)


def _check_postgresql(plan: Plan, most_rows: int) -> None:
    for node in plan.nodes:
        kind = node.get("Node Type")
        assert kind != "Seq Scan", plan
        if kind is None or kind == "ModifyTable":
            continue
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        if node.get("Relation Name") == "outbox_message" or "Sort" in kind:
            assert rows * node["Actual Loops"] <= most_rows, (kind, rows, plan)


def _check_sqlite(plan: Plan) -> None:
    for line in plan.lines:
        read_whole = line.startswith("SCAN ") and line.split()[1] in _TABLE_AND_ALIASES
        assert not read_whole, plan
        assert "TEMP B-TREE FOR ORDER BY" not in line or "first_due" in plan.statement, plan


def _check_mariadb(plan: Plan, most_rows: int) -> None:
    for node in plan.nodes:
        if "access_type" in node and not node.get("table_name", "<").startswith("<"):
            assert node["access_type"] in {"range", "ref", "eq_ref", "const"}, plan
            rows = max(node.get("r_rows") or 0, 1 if node.get("r_loops") else 0)
            assert rows * node.get("r_loops", 1) <= most_rows * _MARIADB_LOOKS_AHEAD, plan


async def test_a_claim_walks_the_due_index_until_it_has_enough(outbox: Outbox) -> None:
    await _check(outbox, outbox.store.claim, most_rows=BATCH)


async def test_held_rows_are_met_once_and_later_claims_read_free_ones_alone(outbox: Outbox) -> None:
    """A thousand held rows come first; without putting them off, each claim would read them all again."""

    def claims(connection: Connection) -> None:
        found = [len(outbox.store.claim(connection).rows) for _ in range(4)]
        assert found[2:] == [BATCH] * 2

    await _check(outbox, outbox.store.claim, before=claims, most_rows=BATCH)


async def test_the_head_of_a_key_is_found_without_reading_what_was_published_of_it(outbox: Outbox) -> None:
    claim = Claim(UUID(int=0), ())

    def take_head(connection: Connection) -> None:
        nonlocal claim
        claim = outbox.store.claim(connection, limit=1)
        assert claim.rows[0].message.ordering_key == "hot"

    def publish(connection: Connection) -> None:
        settlements = [Settlement.published(each) for each in claim.sequences]
        assert outbox.store.settle(connection, claim.token, settlements).lost == ()

    await _check(outbox, publish, before=take_head, most_rows=1)


async def test_renewing_and_settling_find_their_rows_by_key(outbox: Outbox) -> None:
    claim = Claim(UUID(int=0), ())

    def take(connection: Connection) -> None:
        nonlocal claim
        claim = outbox.store.claim(connection)

    def settle(connection: Connection) -> None:
        assert outbox.store.renew(connection, claim.token, claim.sequences) == frozenset()
        settlements = [
            Settlement.retry(each, delay_seconds=each, error_code="nack") for each in claim.sequences
        ]
        assert outbox.store.settle(connection, claim.token, settlements).lost == ()

    await _check(outbox, settle, before=take, most_rows=BATCH)


async def test_counting_reads_unfinished_and_dead_rows_only(outbox: Outbox) -> None:
    await _check(outbox, outbox.store.counts, most_rows=PENDING + 3 * HELD)


async def test_the_look_for_suspects_reads_the_first_thousand_due_rows_only(outbox: Outbox) -> None:
    await _check(outbox, outbox.store.claim_suspect, most_rows=1000)
    await _check(outbox, outbox.store.bury_suspects, most_rows=1000)


async def test_a_page_of_failures_is_read_from_its_index(outbox: Outbox) -> None:
    def two_pages(connection: Connection) -> None:
        page = outbox.store.list_failed(connection, None, None, 20)
        assert len(outbox.store.list_failed(connection, None, page[-1].cursor, 20)) == 20

    await _check(outbox, two_pages, most_rows=DEAD)


async def test_replaying_and_discarding_find_their_rows_by_event(outbox: Outbox) -> None:
    def replay(connection: Connection) -> None:
        page = outbox.store.list_failed(connection, None, None, 20)
        outbox.store.replay(connection, [each.event_id for each in page[:10]])
        outbox.store.discard(connection, [each.event_id for each in page[10:]])

    await _check(outbox, replay, most_rows=DEAD)


async def test_cleaning_takes_the_oldest_from_their_index(outbox: Outbox) -> None:
    await _check(outbox, lambda connection: outbox.store.cleanup(connection, limit=500), most_rows=500)
