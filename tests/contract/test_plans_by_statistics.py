"""Claims, recovery and clean-ups walk an index until they have enough, whatever is known of the tables.

PostgreSQL plans by statistics, and those of a queue are never right: none yet, those of an empty table, or of
the time before a backlog. The first executions of a statement on a connection are planned for its values, the
later ones for any.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Connection, text

from inbox.table import DUE_INDEX as RECEIPT_DUE
from inbox.table import FINISHED_INDEX as RECEIPT_FINISHED
from jobs import JobState
from jobs.table import DUE_INDEX, FINAL_INDEX, LEASED_INDEX
from outbox.table import DUE_INDEX as MESSAGE_DUE
from outbox.table import FINISHED_INDEX as MESSAGE_FINISHED
from tests.support.crowded_tables import CONSUMERS, QUEUES, CrowdedTables
from tests.support.databases import engine_for, temporary_database_url
from tests.support.plans import Plan, plans_of

MANY, FEW, BATCH = 3_000, 100, 50
LANES = 3 * 201
EXECUTIONS = 8
"""More than the five after which PostgreSQL may plan for any values."""

Fill = Callable[[CrowdedTables], Awaitable[None]]
Verb = Callable[[CrowdedTables, Connection], int]

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def never_analyzed(tables: CrowdedTables) -> None:
    await tables.add(MANY, finished=True)
    await tables.add(MANY, finished=False)


async def analyzed_when_empty(tables: CrowdedTables) -> None:
    await tables.analyze()
    await never_analyzed(tables)


async def analyzed_when_all_was_queued(tables: CrowdedTables) -> None:
    await tables.add(MANY, finished=False)
    await tables.analyze()
    await tables.add(MANY, finished=True)


async def analyzed_when_hardly_any_was_queued(tables: CrowdedTables) -> None:
    await tables.add(2 * MANY, finished=True)
    await tables.add(FEW, finished=False)
    await tables.analyze()
    await tables.add(MANY, finished=False)


async def analyzed_when_hardly_any_was_finished(tables: CrowdedTables) -> None:
    await tables.add(MANY, finished=False)
    await tables.add(FEW, finished=True)
    await tables.analyze()
    await tables.add(MANY, finished=True)


async def just_analyzed(tables: CrowdedTables) -> None:
    await never_analyzed(tables)
    await tables.analyze()


STATISTICS: dict[str, tuple[str, Fill, int]] = {
    "sqlite": ("sqlite", never_analyzed, 100),
    "mariadb": ("mariadb", never_analyzed, 100),
} | {
    f"postgresql-{fill.__name__}-{percent}": ("postgresql", fill, percent)
    for fill, percent in (
        (never_analyzed, 100),
        (never_analyzed, 10),
        (analyzed_when_empty, 10),
        (analyzed_when_all_was_queued, 100),
        (analyzed_when_hardly_any_was_queued, 100),
        (analyzed_when_hardly_any_was_finished, 100),
        (just_analyzed, 100),
    )
}
"""The kind of database, what it is told and when, and how full the pages of its tables are."""

POSTGRESQL = [name for name in STATISTICS if name.startswith("postgresql")]

_MOST_READS = 4
"""By how many statements, and by how many indexes each, a row is looked up at most."""
_STORED = ("jobs_job", "jobs_attempt", "outbox_message", "inbox_receipt")
_MARIADB_LOOKS_AHEAD = 8


def _claim(tables: CrowdedTables, connection: Connection, **options: Any) -> int:
    return len(tables.jobs.start_many(connection, QUEUES, limit=BATCH, owner="me", **options).started)


VERBS: dict[str, tuple[str, Verb]] = {
    "cleanup of jobs": (
        FINAL_INDEX,
        lambda tables, connection: tables.jobs.cleanup(
            connection, JobState.SUCCEEDED, older_than_seconds=60, limit=BATCH
        ),
    ),
    "cleanup of the outbox": (
        MESSAGE_FINISHED,
        lambda tables, connection: tables.outbox.cleanup(connection, limit=BATCH),
    ),
    "cleanup of the inbox": (
        RECEIPT_FINISHED,
        lambda tables, connection: tables.inbox.cleanup(connection, limit=BATCH),
    ),
    "recovery of jobs": (
        LEASED_INDEX,
        lambda tables, connection: len(tables.jobs.recover_expired(connection, limit=BATCH)),
    ),
    "recovery of jobs by handlers": (
        LEASED_INDEX,
        lambda tables, connection: len(
            tables.jobs.recover_expired(connection, limit=BATCH, handlers=[("invoices.render", 1)])
        ),
    ),
    "claim of jobs": (DUE_INDEX, _claim),
    "claim of jobs by handlers": (
        DUE_INDEX,
        lambda tables, connection: _claim(tables, connection, handlers=[("invoices.render", 1)]),
    ),
    "look for due jobs": (
        DUE_INDEX,
        lambda tables, connection: len(tables.jobs.get_due(connection, QUEUES, BATCH)),
    ),
    "claim of the outbox": (
        MESSAGE_DUE,
        lambda tables, connection: len(tables.outbox.claim(connection, limit=BATCH).rows),
    ),
    "claim of the inbox": (
        RECEIPT_DUE,
        lambda tables, connection: len(tables.inbox.claim(connection, [CONSUMERS[0]], limit=BATCH)),
    ),
    "claim of the inbox for several": (
        RECEIPT_DUE,
        lambda tables, connection: len(tables.inbox.claim(connection, CONSUMERS, limit=BATCH)),
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=STATISTICS)
async def tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[CrowdedTables]:
    """One filled database of each kind and state of knowledge; each test undoes what it did."""
    kind, fill, fill_percent = STATISTICS[request.param]
    directory = tmp_path_factory.mktemp("statistics")
    async with temporary_database_url(kind, directory) as url, engine_for(url) as engine:
        tables = await CrowdedTables(engine, fill_percent=fill_percent).create()
        await fill(tables)
        await tables.start_jobs(MANY // 4)
        yield tables


@pytest.mark.parametrize("verb", VERBS)
async def test_an_index_is_walked_until_there_is_enough(tables: CrowdedTables, verb: str) -> None:
    index, work = VERBS[verb]

    def check(connection: Connection) -> None:
        assert work(tables, connection) == BATCH

    plans = await plans_of(tables.engine, check, before=None)
    match tables.engine.dialect.name:
        case "postgresql":
            assert any(node.get("Index Name") == index for plan in plans for node in plan.nodes), plans
            for plan in plans:
                _check_postgresql(plan)
        case "sqlite":
            lines = [line for plan in plans for line in plan.lines]
            assert any(f"INDEX {index} " in line for line in lines), lines
            assert not [line for line in lines if "SCAN" in line and line.split()[1] in _STORED], lines
        case _:
            assert any(node.get("key") == index for plan in plans for node in plan.nodes), plans
            for plan in plans:
                _check_mariadb(plan)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("tables", POSTGRESQL, indirect=True, scope="module")
async def test_no_execution_on_a_connection_reads_more(tables: CrowdedTables, verb: str) -> None:
    _, work = VERBS[verb]
    read: list[int] = []

    def execute(connection: Connection) -> None:
        before = _rows_read(connection)
        assert work(tables, connection) == BATCH
        read.append(_rows_read(connection) - before)

    await tables.engine.dispose()  # so that nothing is prepared yet
    async with tables.engine.connect() as connection:
        for _ in range(EXECUTIONS):
            await connection.run_sync(execute)
        await connection.rollback()
    assert max(read) <= _MOST_READS * BATCH + LANES, read


def _check_postgresql(plan: Plan) -> None:
    for node in plan.nodes:
        kind = node.get("Node Type")
        assert kind != "Seq Scan", plan
        if kind is not None and "Actual Rows" in node:
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            assert rows * node["Actual Loops"] <= LANES, (kind, rows, plan)


def _check_mariadb(plan: Plan) -> None:
    for node in plan.nodes:
        if node.get("table_name") in _STORED:
            rows = max(node.get("r_rows") or 0, 1 if node.get("r_loops") else 0)
            assert rows * (node.get("r_loops") or 1) <= BATCH * _MARIADB_LOOKS_AHEAD, plan


def _rows_read(connection: Connection) -> int:
    """How many rows this transaction has read of all tables, by index or not."""
    query = text("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables")
    return int(connection.execute(query).scalar_one())
