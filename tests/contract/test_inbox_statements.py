"""How many statements a verb takes, and by which index it finds its rows."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from inbox.options import InboxOptions
from inbox.receipt import AcquiredReceipt, ReceiptLease
from inbox.store import InboxStore
from inbox.table import DUE_INDEX, FINISHED_INDEX, LEASED_INDEX
from tests.support.inbox import Inbox, message
from tests.support.statements import recorded_statements
from uow.sql.clock import DatabaseClock

pytest_plugins = ("tests.support.inbox_fixture",)

SIZES = pytest.mark.parametrize("count", [1, 50, 500])


async def acquired(inbox: Inbox, count: int) -> list[AcquiredReceipt]:
    answers = await inbox.acquire("billing", *(message() for _ in range(count)))
    return [answer.receipt for answer in answers if answer.receipt]


def leases_of(receipts: list[AcquiredReceipt]) -> list[ReceiptLease]:
    return [receipt.lease for receipt in receipts]


@SIZES
async def test_a_claim_takes_as_many_statements_for_any_batch(inbox: Inbox, count: int) -> None:
    await inbox.step(inbox.store.record, [(name, message()) for name in "ab" for _ in range(count)])
    for consumers in (["a"], ["a", "b", "c"]):
        with recorded_statements(inbox.engine) as statements:
            assert len(await inbox.claim(*consumers, limit=count)) == count
        assert len(statements) == (2 if inbox.engine.dialect.name == "mysql" else 1)


@SIZES
async def test_a_hand_over_takes_as_many_statements_for_any_batch(inbox: Inbox, count: int) -> None:
    batch = [("billing", message()) for _ in range(count)]
    with recorded_statements(inbox.engine) as statements:
        await inbox.step(inbox.store.record, batch)
    assert len(statements) == (3 if inbox.engine.dialect.name == "mysql" else 1)
    with recorded_statements(inbox.engine) as statements:
        await inbox.step(inbox.store.record, batch)
    assert len(statements) == (4 if inbox.engine.dialect.name == "mysql" else 2)


@SIZES
async def test_a_renewal_takes_as_many_statements_for_any_batch(inbox: Inbox, count: int) -> None:
    receipts = await acquired(inbox, count)
    with recorded_statements(inbox.engine) as statements:
        assert not await inbox.step(inbox.store.renew, leases_of(receipts))
    assert len(statements) == (2 if inbox.engine.dialect.name == "mysql" else 1)
    await inbox.complete(receipts[0])
    with recorded_statements(inbox.engine) as statements:
        assert await inbox.step(inbox.store.renew, leases_of(receipts)) == {receipts[0].lease}
    assert len(statements) <= (3 if inbox.engine.dialect.name == "mysql" else 2)


@SIZES
async def test_releasing_burying_counting_and_cleaning_take_as_many_for_any_batch(
    inbox: Inbox, count: int
) -> None:
    mysql = inbox.engine.dialect.name == "mysql"
    receipts = await acquired(inbox, count)
    with recorded_statements(inbox.engine) as statements:
        await inbox.step(inbox.store.release, leases_of(receipts))
    assert len(statements) == (2 if mysql else 1)
    receipts = await inbox.claim("billing", limit=count)
    inbox.clock.advance(60)
    with recorded_statements(inbox.engine) as statements:
        buried = await inbox.step(inbox.store.bury, "billing", max_retry_attempts=0)
    assert len(buried) == count
    assert len(statements) == (2 if mysql else 1)
    with recorded_statements(inbox.engine) as statements:
        assert (await inbox.step(inbox.store.counts)).dead_lettered == count
    assert len(statements) == 1
    await inbox.step(lambda connection: connection.execute(inbox.table.update().values(state="processed")))
    inbox.clock.advance(inbox.options.processed_retention_seconds + 1)
    with recorded_statements(inbox.engine) as statements:
        assert await inbox.step(inbox.store.cleanup) == count
    assert len(statements) == (2 if mysql else 1)


async def test_ending_an_attempt_takes_one_statement(inbox: Inbox) -> None:
    for end in (Inbox.complete, Inbox.fail, Inbox.dead_letter):
        (receipt,) = await acquired(inbox, 1)
        with recorded_statements(inbox.engine) as statements:
            assert await end(inbox, receipt)
        assert len(statements) == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
@SIZES
async def test_mariadb_is_sent_one_insert_for_any_batch(inbox: Inbox, count: int) -> None:
    """SQLAlchemy hands the driver a list of rows; this counts what the server got."""

    def inserts(connection: Connection) -> int:
        status = connection.execute(text("SHOW SESSION STATUS LIKE 'Com_insert'")).one()
        return int(status[1])

    def measure(connection: Connection) -> int:
        before = inserts(connection)
        inbox.store.acquire(connection, "billing", [message() for _ in range(count)])
        inbox.store.record(connection, [("billing", message()) for _ in range(count)])
        return inserts(connection) - before

    assert await inbox.step(measure) == 2


async def test_payloads_at_the_limit_come_in_portions(inbox: Inbox) -> None:
    batch = [message(json.dumps({"text": f"{number}" * 1_000_000})) for number in range(5)]
    assert {answer.receipt is not None for answer in await inbox.acquire("billing", *batch)} == {True}
    report = await inbox.step(inbox.store.record, [("audit", each) for each in batch])
    assert report.recorded == 5
    assert {receipt.message for receipt in await inbox.claim("audit")} == set(batch)


COLUMNS = (
    "message_id, consumer, contract_name, contract_version, occurred_at, payload, state, attempt_count, "
    "claim_count, received_at, lease_expires_at, next_attempt_at, completed_at"
)
SAME = "'orders.placed', 1, 5, :payload, :state, 1, :claims"
FILL = {
    "postgresql": f"""
        INSERT INTO inbox_receipt ({COLUMNS})
        SELECT gen_random_uuid(), 'c' || (i % 4), {SAME}, now(), CASE WHEN :leased THEN moment END,
          CASE WHEN :due THEN moment END, CASE WHEN NOT :due THEN moment END
        FROM (SELECT i, now() - i * interval '1 ms' AS moment FROM generate_series(1, :rows) i) g""",
    "mariadb": f"""
        INSERT INTO inbox_receipt ({COLUMNS})
        SELECT unhex(md5(concat(i, rand()))), concat('c', i % 4), {SAME}, utc_timestamp(6),
          IF(:leased, moment, NULL), IF(:due, moment, NULL), IF(:due, NULL, moment)
        FROM (SELECT seq AS i, utc_timestamp(6) - interval seq * 1000 microsecond AS moment
          FROM seq_1_to_20000 WHERE seq <= :rows) g""",
    "sqlite": f"""
        INSERT INTO inbox_receipt ({COLUMNS})
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows),
          g AS (SELECT i, printf('%.3f seconds', -i / 1000.0) AS age FROM n),
          h AS (SELECT i, strftime('%Y-%m-%d %H:%M:%f000', 'now', age) AS moment FROM g)
        SELECT lower(hex(randomblob(16))), 'c' || (i % 4), {SAME}, moment, CASE WHEN :leased THEN moment END,
          CASE WHEN :due THEN moment END, CASE WHEN NOT :due THEN moment END FROM h""",
}
CROWD = (
    {"state": "processed", "due": False, "leased": False, "claims": 0, "rows": 8_000},
    {"state": "dead_lettered", "due": False, "leased": False, "claims": 0, "rows": 800},
    {"state": "received", "due": True, "leased": False, "claims": 0, "rows": 3_000},
    {"state": "processing", "due": True, "leased": True, "claims": 2, "rows": 20},
)
ANALYZE = {
    "postgresql": "VACUUM ANALYZE inbox_receipt",
    "mariadb": "ANALYZE TABLE inbox_receipt",
    "sqlite": "ANALYZE",
}
SCAN = re.compile(r"Seq Scan on inbox_receipt|SCAN inbox_receipt$|'inbox_receipt', 'ALL'", re.MULTILINE)
PRIMARY_KEYS = {
    "postgresql": "inbox_receipt_pkey",
    "mariadb": "PRIMARY",
    "sqlite": "sqlite_autoindex_inbox_receipt_1",
}


async def plans_of(inbox: Inbox, verb: Callable[[Connection], object]) -> str:
    """EXPLAIN of each statement that `verb` executes, as one text; what it changed is undone."""
    executed: list[tuple[str, Any]] = []

    def record(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if "inbox_receipt" in statement and not statement.startswith("INSERT"):
            executed.append((statement, parameters))

    async with inbox.engine.connect() as connection:
        event.listen(inbox.engine.sync_engine, "before_cursor_execute", record)
        await connection.run_sync(verb)
        event.remove(inbox.engine.sync_engine, "before_cursor_execute", record)
        await connection.rollback()
        word = "EXPLAIN QUERY PLAN" if inbox.engine.dialect.name == "sqlite" else "EXPLAIN"
        lines = [
            str(tuple(row))
            for statement, parameters in executed
            for row in await connection.exec_driver_sql(f"{word} {statement}", parameters)
        ]
        await connection.rollback()
    return "\n".join(lines)


async def analyze(inbox: Inbox, kind: str) -> None:
    async with inbox.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text(ANALYZE[kind]))


@pytest.fixture(params=["of this table", "of an empty table"])
async def crowd(request: pytest.FixtureRequest, database_kind: str, inbox: Inbox) -> Inbox:
    """A table in which each verb must find a few rows among many, with good or misleading statistics."""
    inbox.store = inbox.store_with(DatabaseClock())
    if database_kind != "sqlite":  # what earlier tests left in the indexes would make them look dear
        await inbox.step(lambda connection: connection.execute(text("TRUNCATE TABLE inbox_receipt")))
    for rows in CROWD:
        if request.param == "of an empty table":
            await analyze(inbox, database_kind)
        await inbox.step(
            lambda connection, rows=rows: connection.execute(
                text(FILL[database_kind]), rows | {"payload": "x" * 400}
            )
        )
    if request.param == "of this table":
        await analyze(inbox, database_kind)
    return inbox


async def test_each_verb_finds_its_rows_by_an_index(crowd: Inbox, database_kind: str) -> None:
    key = PRIMARY_KEYS[database_kind]
    # What is changed in the statement that has locked it is found by its address, which takes no index.
    again_by = (key,) if database_kind == "mariadb" else ()
    store, receipts = crowd.store, await crowd.step(crowd.store.claim, ["c0", "c1"], limit=64)
    strict = InboxStore(crowd.table, options=InboxOptions(processed_retention_seconds=1))
    again = [receipt.message for receipt in receipts if receipt.consumer == receipts[0].consumer]
    one = receipts[0]
    cases: dict[str, tuple[Callable[[Connection], object], tuple[str, ...]]] = {
        "claim": (lambda c: store.claim(c, ["c2"], limit=64), (DUE_INDEX, *again_by)),
        "claim of several": (
            lambda c: store.claim(c, ["c1", "c2", "c3"], limit=64),
            (DUE_INDEX, *again_by),
        ),
        "claim_suspect": (lambda c: store.claim_suspect(c, ["c1", "c2"]), (LEASED_INDEX,)),
        "bury": (lambda c: store.bury(c, "c1", max_retry_attempts=0), (LEASED_INDEX,)),
        "acquire": (lambda c: store.acquire(c, one.consumer, again), (key,)),
        "renew": (lambda c: store.renew(c, leases_of(receipts)), (key,)),
        "release": (lambda c: store.release(c, leases_of(receipts)), (key,)),
        "complete": (lambda c: store.complete(c, one.lease), (key,)),
        "fate": (lambda c: store.fate(c, one.lease), (key,)),
        "reset": (lambda c: store.reset(c, one.key), (key,)),
        "find": (lambda c: store.find(c, one.key), (key,)),
        "list_failed": (lambda c: store.list_failed(c, limit=10), (FINISHED_INDEX,)),
        "cleanup": (lambda c: strict.cleanup(c, limit=100), (FINISHED_INDEX, *again_by)),
    }
    wrong = {}
    for name, (verb, indexes) in cases.items():
        plans = await plans_of(crowd, verb)
        if SCAN.search(plans) or not all(index in plans for index in indexes):
            wrong[name] = plans
    assert not wrong, "\n".join(f"{name}:\n{plans}" for name, plans in wrong.items())
    await analyze(crowd, database_kind)
    plans = "".join([await plans_of(crowd, cases[name][0]) for name in ("claim", "list_failed")])
    assert not re.search("Sort Key|TEMP B-TREE|filesort", plans), plans


async def test_counting_reads_no_processed_receipt(crowd: Inbox, database_kind: str) -> None:
    columns = crowd.table.c
    few = (columns.state == "received") & (columns.consumer != "c3")
    await crowd.step(
        lambda connection: connection.execute(
            crowd.table.update().where(few).values(state="processed", next_attempt_at=None)
        )
    )
    await analyze(crowd, database_kind)
    plans = await plans_of(crowd, crowd.store.counts)
    assert not SCAN.search(plans), plans
    indexes = (FINISHED_INDEX,) if database_kind == "mariadb" else (DUE_INDEX, FINISHED_INDEX)
    assert all(index in plans for index in indexes), plans
