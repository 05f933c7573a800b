"""Jobs are stored once, by exact identity, in the caller's transaction, whatever was stored before."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from jobs import (
    JobIdentityConflictError,
    JobKey,
    JobNotFoundError,
    JobsNotMappedError,
    JobState,
    JobVanishedError,
    add_job_tables,
    job_tables,
    scope_hash,
)
from tests.support.blocking import someone_waits
from tests.support.jobs import SCOPE, SEVERAL_WRITERS, StoredJobs, at, key, submission, submissions
from uow.sql.clock import DatabaseClock
from uow.sql.dialect import database_of
from uow.telemetry import use_correlation_id
from uow.ticks import MAXIMUM_TICKS, UtcInstant

pytest_plugins = ("tests.support.jobs_fixture",)


async def test_a_submission_comes_back_byte_for_byte(stored: StoredJobs) -> None:
    with use_correlation_id("Kunde Zoë 😀"):
        odd = submission(
            "Rechnung 7 😀 ",
            arguments={"text": "Zoë 😀 \x00 % 'quoted' \\ :x \" %s"},
            priority=-100,
            max_attempts=100,
            version=2_147_483_647,
            queue="A.b-c_9",
            not_before=UtcInstant(MAXIMUM_TICKS),
        )
    (submitted,) = await stored.submit(odd)
    found = await stored.get("Rechnung 7 😀 ")
    assert submitted.created
    assert found == submitted.snapshot
    assert odd.differs_from(found) == ()
    assert (found.priority, found.correlation_id) == (-100, "Kunde Zoë 😀")
    assert (found.initial_not_before, found.next_run) == (UtcInstant(MAXIMUM_TICKS),) * 2


async def test_without_a_schedule_a_job_is_due_at_its_creation(stored: StoredJobs) -> None:
    stored.advance(7.5)
    await stored.submit(
        submission("now"), submission("later", not_before=at(60)), submission("past", not_before=at(0))
    )
    now, later, past = [await stored.get(job_id) for job_id in ("now", "later", "past")]
    assert (now.initial_not_before, now.next_run, now.created) == (None, at(7.5), at(7.5))
    assert (later.initial_not_before, later.next_run, later.created) == (at(60), at(60), at(7.5))
    assert (past.initial_not_before, past.next_run) == (at(0), at(0))
    assert (now.state, now.attempt_count, now.attempts_left) == (JobState.QUEUED, 0, 5)


async def test_an_equal_submission_brings_the_stored_job_and_changes_nothing(stored: StoredJobs) -> None:
    first = submission(arguments={"a": 1}, priority=3)
    await stored.submit(first)
    await stored.start()
    stored.advance(5)
    before = await stored.rows()
    again, new = await stored.submit(submission(arguments={"a": 1}, priority=-3), submission("new"))
    assert (again.created, new.created) == (False, True)
    assert (again.snapshot.state, again.snapshot.priority) == (JobState.RUNNING, 3)
    after = await stored.rows()
    assert [row for row in after["jobs_job"] if row["job_id"] == "j"] == before["jobs_job"]


async def test_a_final_job_that_was_retried_is_still_the_same_request(stored: StoredJobs) -> None:
    request = submission(not_before=at(0))
    await stored.submit(request)
    await stored.step(stored.store.cancel, SCOPE, "j")
    await stored.step(stored.store.retry, SCOPE, "j", next_run=at(500))
    (again,) = await stored.submit(request)
    assert not again.created
    assert (again.snapshot.initial_not_before, again.snapshot.next_run) == (at(0), at(500))


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("handler", {"handler": "Invoices.render"}),
    ("handler_version", {"version": 2}),
    ("arguments", {"arguments_json": "null "}),
    ("queue", {"queue": "Default"}),
    ("max_attempts", {"max_attempts": 6}),
    ("initial_not_before", {"not_before": at(0)}),
]


async def test_another_request_under_a_stored_identity_is_a_conflict_and_nothing_is_kept(
    stored: StoredJobs,
) -> None:
    await stored.submit(submission())
    before = await stored.rows()
    for field, change in CHANGES:
        with pytest.raises(JobIdentityConflictError) as caught:
            await stored.submit(submission("new"), submission(**change))
        assert (caught.value.key, caught.value.differs) == (key(), (field,))
        assert await stored.rows() == before


async def test_one_identity_twice_in_a_call_is_one_job_or_a_conflict(stored: StoredJobs) -> None:
    first, second = await stored.submit(submission(), submission(priority=9))
    assert (first.created, second.created) == (True, False)
    assert first.snapshot == second.snapshot
    with pytest.raises(JobIdentityConflictError):
        await stored.submit(submission("other"), submission("other", queue="elsewhere"))
    assert await stored.step(stored.store.find, SCOPE, "other") is None


async def test_identities_are_compared_by_code_point(stored: StoredJobs) -> None:
    job_ids = ["audit", "Audit", "audit ", " audit", "\xe9", "e\u0301", "\U0001f600", "\U0001f601", "ss", "ß"]
    scopes = ["owner", "Owner", "owner "]
    requests = [submission(job_id, scope=scope) for job_id in job_ids for scope in scopes]
    submitted = await stored.submit(*requests)
    assert all(each.created for each in submitted)
    for scope in scopes:
        for job_id in job_ids:
            found = await stored.get(job_id, scope)
            assert found.key == JobKey(scope_hash(scope), job_id)
    for job_id in ("AUDIT", "e", "SS"):
        with pytest.raises(JobNotFoundError):
            await stored.get(job_id, "owner")


async def test_queues_are_compared_by_code_point(stored: StoredJobs) -> None:
    await stored.submit(submission("a", queue="mail"), submission("b", queue="Mail"))
    report = await stored.claim("Mail")
    assert [job.reference.job_id for job in report.started] == ["b"]
    assert (await stored.claim("MAIL")).looked_at == 0


async def test_a_duplicate_leaves_the_callers_transaction_usable(stored: StoredJobs) -> None:
    """On PostgreSQL a database error would abort it."""
    await stored.submit(submission())

    async with stored.engine.connect() as connection, connection.begin():
        (again,) = await connection.run_sync(stored.store.submit_many, [submission()])
        assert not again.created
        with pytest.raises(JobIdentityConflictError):
            await connection.run_sync(stored.store.submit_many, [submission(queue="elsewhere")])
        await connection.run_sync(stored.store.submit_many, [submission("new")])
        count = await connection.scalar(select(func.count()).select_from(stored.tables.job))
    assert count == 2


async def test_many_large_arguments_are_stored_in_one_call(stored: StoredJobs) -> None:
    text_of = '"' + "\\u00e9\\\\'" * 100_000 + '"'
    requests = [submission(f"j{number}", arguments_json=text_of) for number in range(8)]
    await stored.submit(*requests)
    submitted = await stored.submit(*requests)
    assert [each.created for each in submitted] == [False] * 8
    assert {each.snapshot.arguments for each in submitted} == {text_of}


async def test_more_than_a_thousand_are_stored_in_one_call(stored: StoredJobs) -> None:
    submitted = await stored.submit(*submissions(1500))
    assert sum(each.created for each in submitted) == 1500
    assert [each.snapshot.job_id for each in submitted] == sorted(each.snapshot.job_id for each in submitted)


@pytest.mark.parametrize("database_kind", ["sqlite", "postgresql"])
async def test_jobs_that_can_neither_be_added_nor_found_are_told(engine: AsyncEngine) -> None:
    stored = await StoredJobs(engine).create()
    for statement in _SWALLOW[database_of(stored.engine).name]:
        await stored.step(lambda connection, statement=statement: connection.execute(text(statement)))
    with pytest.raises(JobVanishedError, match="1 jobs could neither be added nor found"):
        await stored.submit(submission())


_SWALLOW = {
    "sqlite": ["CREATE TRIGGER swallow BEFORE INSERT ON jobs_job BEGIN SELECT RAISE(IGNORE); END"],
    "postgresql": [
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER swallow BEFORE INSERT ON jobs_job FOR EACH ROW EXECUTE FUNCTION swallow()",
    ],
}


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
class TestRaces:
    """Two transactions store the same identity at once."""

    async def test_the_loser_waits_and_gets_the_winners_job(self, engine: AsyncEngine) -> None:
        stored = await StoredJobs(engine).create()
        async with _open(stored) as winner:
            await winner.run_sync(stored.store.submit_many, [submission(priority=1)])
            loser = asyncio.create_task(stored.submit(submission(priority=2)))
            await someone_waits(engine)
            await winner.commit()
        (lost,) = await loser
        assert (lost.created, lost.snapshot.priority) == (False, 1)

    async def test_the_loser_of_another_request_gets_a_conflict(self, engine: AsyncEngine) -> None:
        stored = await StoredJobs(engine).create()
        async with _open(stored) as winner:
            await winner.run_sync(stored.store.submit_many, [submission(queue="a")])
            loser = asyncio.create_task(stored.submit(submission(queue="b")))
            await someone_waits(engine)
            await winner.commit()
        with pytest.raises(JobIdentityConflictError):
            await loser

    async def test_losing_to_a_writer_that_rolls_back_still_stores_the_job(self, engine: AsyncEngine) -> None:
        stored = await StoredJobs(engine).create()
        async with _open(stored) as winner:
            await winner.run_sync(stored.store.submit_many, [submission(queue="a")])
            loser = asyncio.create_task(stored.submit(submission(queue="b")))
            await someone_waits(engine)
            await winner.rollback()
        (kept,) = await loser
        assert (kept.created, kept.snapshot.queue) == (True, "b")
        assert (await stored.get()).queue == "b"

    async def test_a_duplicate_inside_a_transaction_with_an_old_snapshot_is_found(
        self, engine: AsyncEngine
    ) -> None:
        """The other commit came after this transaction's first read."""
        stored = await StoredJobs(engine).create()
        async with engine.connect() as connection:
            await connection.execute(select(func.count()).select_from(stored.tables.job))
            await stored.submit(submission())
            (again,) = await connection.run_sync(stored.store.submit_many, [submission()])
            assert not again.created
            await connection.run_sync(stored.store.submit_many, [submission("new")])
            await connection.commit()
        assert (await stored.get("new")).state is JobState.QUEUED


async def test_eight_who_submit_the_same_jobs_store_each_once(engine: AsyncEngine) -> None:
    stored = await StoredJobs(engine, clock=DatabaseClock()).create()
    requests = submissions(50)

    async def one(number: int) -> int:
        return sum(each.created for each in await stored.submit(*requests[number:], *requests[:number]))

    assert sum(await asyncio.gather(*(one(number) for number in range(8)))) == 50


async def test_a_deleted_job_can_be_submitted_anew(stored: StoredJobs) -> None:
    await stored.submit(submission(queue="a"))
    await stored.step(lambda connection: connection.execute(delete(stored.tables.job)))
    (new,) = await stored.submit(submission(queue="b"))
    assert new.created


def test_tables_are_added_once_and_asked_for_by_name() -> None:
    from sqlalchemy import MetaData

    metadata = MetaData()
    with pytest.raises(JobsNotMappedError, match="add_job_tables"):
        job_tables(metadata)
    added = add_job_tables(metadata, schema="work")
    assert add_job_tables(metadata) == added == job_tables(metadata)
    assert {table.fullname for table in metadata.tables.values()} == {"work.jobs_job", "work.jobs_attempt"}


def test_a_snapshot_shows_no_arguments_and_cannot_be_changed() -> None:
    from jobs.submit import _snapshot

    snapshot = _snapshot(submission(arguments={"password": "secret"}), at(0))
    assert "secret" not in repr(snapshot)
    assert replace(snapshot, queue="other") != snapshot


def _open(stored: StoredJobs) -> AsyncConnection:
    isolation = database_of(stored.engine).claim_isolation
    options = {"isolation_level": isolation} if isolation else {}
    return stored.engine.execution_options(**options).connect()
