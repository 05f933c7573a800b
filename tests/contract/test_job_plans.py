"""The plans of the verbs that run all the time: by index, bounded by the batch, whatever is stored besides.

Each database holds thousands of finished jobs and, in front of those that are due, thousands of a higher
priority whose time has not come; the statistics are those of the time before any job was queued.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy import Connection, insert, select, text, update

from jobs import JobState, Settlement, StartReport
from tests.support.databases import KINDS, engine_for, temporary_database_url
from tests.support.jobs import SCOPE, StoredJobs, key, submission, submissions
from tests.support.plans import Plan, plans_of
from uow.sql.clock import DatabaseClock
from uow.sql.dialect import database_of
from uow.ticks import MAXIMUM_TICKS, UtcInstant

FINISHED, RUNNING, FUTURE, DUE = 9_000, 1_000, 3_000, 2_000
BATCH = 200
LANES = 201
_MARIADB_LOOKS_AHEAD = 8
_OUR_TABLES = ("jobs_job", "jobs_attempt", "due", "head", "held")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[StoredJobs]:
    """One filled database of each kind for all tests here; each of them undoes what it did."""
    directory = tmp_path_factory.mktemp("plans")
    async with temporary_database_url(request.param, directory) as url, engine_for(url) as engine:
        isolation = database_of(engine).claim_isolation
        if isolation is not None:
            engine = engine.execution_options(isolation_level=isolation)  # noqa: PLW2901
        stored = await StoredJobs(engine, clock=DatabaseClock()).create()
        await _submit(stored, submissions(FINISHED, prefix="finished-"))
        await stored.step(lambda connection: _finish(connection, stored))
        await _analyze(stored)
        much_later = UtcInstant(MAXIMUM_TICKS)
        await _submit(stored, submissions(RUNNING, prefix="running-"))
        await stored.step(stored.store.start_many, ["default"], limit=RUNNING, owner="another executor")
        await _submit(stored, submissions(FUTURE, prefix="future-", priority=100, not_before=much_later))
        await _submit(stored, submissions(FUTURE, prefix="later-", not_before=much_later))
        await _submit(stored, submissions(DUE, prefix="due-"))
        yield stored


async def _submit(stored: StoredJobs, requests: list[Any]) -> None:
    for first in range(0, len(requests), 1000):
        await stored.submit(*requests[first : first + 1000])


def _finish(connection: Connection, stored: StoredJobs) -> None:
    """What was submitted has succeeded long ago, each with one attempt."""
    job, attempt = stored.tables.job, stored.tables.attempt
    ended = {"state": "succeeded", "queued_in": None, "attempt_count": 1}
    connection.execute(update(job).values(**ended, completed_ticks=stored.clock.ticks_after(-86_400)))
    fixed = {"ordinal": 1, "state": "succeeded", "owner": "me", "started_ticks": UtcInstant(1)}
    rows = connection.execute(select(job.c.scope_hash, job.c.job_id)).mappings().all()
    connection.execute(insert(attempt), [{**row, **fixed, "token": uuid4()} for row in rows])


async def _analyze(stored: StoredJobs) -> None:
    statement = {
        "sqlite": "ANALYZE",
        "postgresql": "ANALYZE jobs_job, jobs_attempt",
        "mysql": "ANALYZE TABLE jobs_job, jobs_attempt",
    }[stored.engine.dialect.name]
    async with stored.engine.connect() as connection:
        await connection.execute(text(statement))
        await connection.commit()


async def _check(
    stored: StoredJobs,
    work: Callable[[Connection], Any],
    *,
    most_rows: int,
    before: Callable[[Connection], Any] | None = None,
) -> list[Plan]:
    """No step of any statement of `work` reads more than `most_rows` rows of our tables, or all of them."""
    plans = await plans_of(stored.engine, work, before=before)
    for plan in plans:
        match stored.engine.dialect.name:
            case "postgresql":
                _check_postgresql(plan, most_rows)
            case "sqlite":
                _check_sqlite(plan)
            case _:
                _check_mariadb(plan, most_rows)
    return plans


def _check_postgresql(plan: Plan, most_rows: int) -> None:
    for node in plan.nodes:
        kind = node.get("Node Type")
        assert kind != "Seq Scan", plan
        if kind is None or kind == "ModifyTable" or "Actual Rows" not in node:
            continue
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        if node.get("Relation Name") in _OUR_TABLES:
            assert rows * node["Actual Loops"] <= most_rows, (kind, rows, plan)
        assert node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] <= most_rows, plan


def _check_sqlite(plan: Plan) -> None:
    for line in plan.lines:
        assert not (line.startswith("SCAN ") and line.split()[1] in _OUR_TABLES), plan
        assert "AUTOMATIC" not in line, plan


def _check_mariadb(plan: Plan, most_rows: int) -> None:
    for node in plan.nodes:
        table = node.get("table_name", "<")
        if "access_type" in node and table in _OUR_TABLES:
            assert node["access_type"] in {"range", "ref", "eq_ref", "const"}, plan
            rows = max(node.get("r_rows") or 0, 1 if node.get("r_loops") else 0)
            assert rows * (node.get("r_loops") or 1) <= most_rows * _MARIADB_LOOKS_AHEAD, plan


async def test_a_claim_reads_the_jobs_it_takes(stored: StoredJobs) -> None:
    def claim(connection: Connection) -> None:
        report = stored.store.start_many(connection, ["default", "empty"], limit=BATCH, owner="me")
        assert {job.reference.job_id[:4] for job in report.started} == {"due-"}
        assert len(report.started) == BATCH

    await _check(stored, claim, most_rows=2 * LANES + BATCH)


async def test_a_claim_of_an_empty_queue_reads_nothing_but_its_lanes(stored: StoredJobs) -> None:
    def claim(connection: Connection) -> None:
        assert stored.store.start_many(connection, ["empty"], limit=BATCH, owner="me").looked_at == 0

    await _check(stored, claim, most_rows=2 * LANES)


async def test_a_claim_that_puts_jobs_off_reads_no_more(stored: StoredJobs) -> None:
    def claim(connection: Connection) -> None:
        report = stored.store.start_many(
            connection, ["default"], limit=BATCH, owner="me", handlers=[("invoices.render", 2)]
        )
        assert len(report.put_off) == BATCH

    await _check(stored, claim, most_rows=2 * LANES + BATCH)


async def test_looking_for_due_jobs_reads_the_first_of_them(stored: StoredJobs) -> None:
    def look(connection: Connection) -> None:
        assert len(stored.store.get_due(connection, ["default"], BATCH)) == BATCH

    await _check(stored, look, most_rows=2 * LANES + BATCH)


class TestRunningAttempts:
    """A batch among a thousand that others run."""

    async def check(
        self, stored: StoredJobs, work: Callable[[Connection, StartReport], Any], *, most_rows: int
    ) -> None:
        claims: list[StartReport] = []

        def claim(connection: Connection) -> None:
            claims.append(stored.store.start_many(connection, ["default"], limit=BATCH, owner="me"))

        await _check(
            stored, lambda connection: work(connection, claims[0]), most_rows=most_rows, before=claim
        )

    async def test_settling_looks_each_of_them_up(self, stored: StoredJobs) -> None:
        def settle(connection: Connection, claim: StartReport) -> None:
            ends = [Settlement.succeed(job.reference) for job in claim.started]
            assert set(stored.store.settle_many(connection, ends)) == {"succeeded"}

        await self.check(stored, settle, most_rows=BATCH)

    async def test_settling_what_is_fenced_looks_each_of_them_up(self, stored: StoredJobs) -> None:
        def settle(connection: Connection, claim: StartReport) -> None:
            ends = [Settlement.succeed(replace(job.reference, token=uuid4())) for job in claim.started]
            assert set(stored.store.settle_many(connection, ends)) == {"fenced"}

        await self.check(stored, settle, most_rows=BATCH)

    async def test_renewing_looks_each_of_them_up(self, stored: StoredJobs) -> None:
        def renew(connection: Connection, claim: StartReport) -> None:
            statuses = stored.store.renew(connection, [job.reference for job in claim.started])
            assert set(statuses.values()) == {"active"}

        await self.check(stored, renew, most_rows=BATCH)

    async def test_asking_for_their_status_looks_each_of_them_up(self, stored: StoredJobs) -> None:
        def ask(connection: Connection, claim: StartReport) -> None:
            references = [job.reference for job in claim.started]
            assert len(stored.store.execution_status_many(connection, references)) == BATCH

        await self.check(stored, ask, most_rows=BATCH)

    async def test_progress_looks_one_up(self, stored: StoredJobs) -> None:
        await self.check(
            stored,
            lambda connection, claim: stored.store.progress(connection, claim.started[0].reference, 5),
            most_rows=2,
        )


@pytest.mark.parametrize(
    "handlers", [None, [("invoices.render", 1)], [("unknown", 1)]], ids=["any", "known", "abandoned"]
)
async def test_recovery_reads_what_has_expired(
    stored: StoredJobs, handlers: list[tuple[str, int]] | None
) -> None:
    def expire(connection: Connection) -> None:
        job = stored.tables.job
        some = [f"running-{number:05d}" for number in range(BATCH)]
        ago = {"lease_expires_ticks": stored.clock.ticks_after(-1)}
        connection.execute(update(job).where(job.c.job_id.in_(some)).values(ago))

    def recover(connection: Connection) -> None:
        recovered = stored.store.recover_expired(
            connection, limit=50, handlers=handlers, abandoned_seconds=0.5
        )
        assert len(recovered) == 50

    await _check(stored, recover, most_rows=2 * BATCH, before=expire)


async def test_retention_reads_what_it_deletes(stored: StoredJobs) -> None:
    def clean(connection: Connection) -> None:
        deleted = stored.store.cleanup(connection, JobState.SUCCEEDED, older_than_seconds=3600, limit=BATCH)
        assert deleted == BATCH

    await _check(stored, clean, most_rows=BATCH)


async def test_counting_reads_no_succeeded_job(stored: StoredJobs) -> None:
    def count(connection: Connection) -> None:
        (queue,) = stored.store.counts(connection).queues
        assert (queue.queued, queue.running) == (2 * FUTURE + DUE, RUNNING)

    if stored.engine.dialect.name != "sqlite":  # which scans an index that holds nothing else
        await _check(stored, count, most_rows=2 * FUTURE + DUE)
    else:
        plans = await plans_of(stored.engine, count, before=None)
        lines = [line for plan in plans for line in plan.lines if "jobs_job" in line]
        assert all("USING" in line and "INDEX" in line for line in lines), lines


async def test_submitting_again_looks_each_of_them_up(stored: StoredJobs) -> None:
    requests = submissions(BATCH, prefix="finished-")

    def submit(connection: Connection) -> None:
        assert not any(each.created for each in stored.store.submit_many(connection, requests))

    await _check(stored, submit, most_rows=BATCH)


async def test_pages_of_a_scope_read_what_they_show(stored: StoredJobs) -> None:
    def show(connection: Connection) -> None:
        assert len(stored.store.list(connection, SCOPE, limit=50)) == 50

    await _check(stored, show, most_rows=50)


async def test_one_job_is_found_by_its_key(stored: StoredJobs) -> None:
    def reach(connection: Connection) -> None:
        stored.store.get(connection, SCOPE, "due-00000")
        stored.store.attempts(connection, SCOPE, "running-00000")
        stored.store.cancel(connection, SCOPE, "due-00000")
        stored.store.retry(connection, SCOPE, "due-00000")
        stored.store.try_start(connection, key("due-00000"), owner="me")
        stored.store.submit_many(connection, [submission("new")])

    await _check(stored, reach, most_rows=1)
