"""Starting grants one attempt of a due job to one owner, the highest priority first."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, update
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs import Fenced, JobOptions, JobState, Settled, Settlement, StartedJob
from tests.support.jobs import SCOPE, StoredJobs, at, ids, key, submission, submissions
from uow.sql.clock import DatabaseClock
from uow.telemetry import use_correlation_id
from uow.text import utf16_units
from uow.ticks import UtcInstant

pytest_plugins = ("tests.support.jobs_fixture",)


async def test_a_started_job_says_all_that_its_handler_needs(stored: StoredJobs) -> None:
    with use_correlation_id("request-7"):
        request = submission(arguments={"a": "ä"}, version=3, queue="mail", priority=2, max_attempts=4)
    await stored.submit(request)
    stored.advance(5)
    job = await stored.start()
    assert (job.handler, job.handler_version, job.queue, job.priority) == ("invoices.render", 3, "mail", 2)
    assert (job.arguments, job.attempts_left, job.created) == ('{"a":"ä"}', 3, at(0))
    assert job.correlation_id == "request-7"
    assert (job.reference.key, job.reference.ordinal) == (key(), 1)
    assert "ä" not in repr(job)
    (attempt,) = await stored.step(stored.store.attempts, SCOPE, "j")
    assert (attempt.ordinal, attempt.token, attempt.owner) == (1, job.reference.token, "executor-1")
    assert (attempt.started, attempt.ended) == (at(5), None)
    snapshot = await stored.get()
    assert (snapshot.state, snapshot.owner, snapshot.attempt_count) == (JobState.RUNNING, "executor-1", 1)
    assert (snapshot.lease_expires, snapshot.heartbeat, snapshot.attempts_left) == (at(65), at(5), 3)


async def test_a_claim_takes_the_highest_priority_first_then_the_longest_due(stored: StoredJobs) -> None:
    await stored.submit(submission("first", priority=0))
    stored.advance(1)
    await stored.submit(submission("second", priority=0), submission("last", priority=-100))
    stored.advance(1)
    await stored.submit(submission("urgent", priority=100), submission("third", priority=0))
    stored.advance(1)
    assert ids(await stored.claim(limit=2)) == ["urgent", "first"]
    assert ids(await stored.claim()) == ["second", "third", "last"]
    assert (await stored.claim()).looked_at == 0


async def test_among_queues_of_one_priority_the_longest_due_job_leads(stored: StoredJobs) -> None:
    await stored.submit(submission("old", queue="b"))
    stored.advance(1)
    await stored.submit(submission("new", queue="a"), submission("urgent", queue="c", priority=1))
    stored.advance(1)
    due = await stored.step(stored.store.get_due, ["a", "b", "c"])
    assert [job.job_id for job in due] == ["urgent", "old", "new"]
    assert ids(await stored.claim("a", "b", "c", limit=2)) == ["urgent", "old"]
    assert ids(await stored.claim("a", "b", "c", "a")) == ["new"]


async def test_only_jobs_of_the_given_queues_are_taken(stored: StoredJobs) -> None:
    await stored.submit(submission("a", queue="a"), submission("b", queue="b"))
    assert ids(await stored.claim("b")) == ["b"]
    assert (await stored.claim("nobody")).looked_at == 0


async def test_a_job_starts_at_its_exact_moment(stored: StoredJobs) -> None:
    await stored.submit(submission(not_before=at(60)))
    stored.advance(59.999999)
    assert await stored.step(stored.store.get_due, ["default"]) == []
    assert (await stored.claim()).looked_at == 0
    assert await stored.step(stored.store.try_start, key(), owner="me") is Fenced.FENCED
    stored.advance(0.000001)
    assert [job.job_id for job in await stored.step(stored.store.get_due, ["default"])] == ["j"]
    assert ids(await stored.claim()) == ["j"]


async def test_looking_grants_nothing(stored: StoredJobs) -> None:
    await stored.submit(*submissions(5))
    before = await stored.rows()
    assert len(await stored.step(stored.store.get_due, ["default"], 3)) == 3
    assert await stored.rows() == before


async def test_a_running_job_starts_no_second_time(stored: StoredJobs) -> None:
    await stored.submit(submission())
    first = await stored.start()
    assert await stored.step(stored.store.try_start, key(), owner="other") is Fenced.FENCED
    assert (await stored.claim()).looked_at == 0
    assert await stored.settle(Settlement.succeed(first.reference)) == [Settled.SUCCEEDED]
    assert await stored.step(stored.store.try_start, key(), owner="other") is Fenced.FENCED


async def test_what_is_not_stored_does_not_start(stored: StoredJobs) -> None:
    assert await stored.step(stored.store.try_start, key(), owner="me") is Fenced.FENCED
    await stored.submit(submission())
    assert await stored.step(stored.store.try_start, key(scope="other"), owner="me") is Fenced.FENCED


async def test_a_queued_job_that_was_changed_by_hand_is_checked_all_the_same(stored: StoredJobs) -> None:
    """Neither a mark of cancellation nor used up attempts ever stand in a queued job otherwise."""
    job = stored.tables.job
    await stored.submit(submission("marked"), submission("used up"), submission("good"))
    changes = {"marked": {"cancel_requested": 1}, "used up": {"attempt_count": 5}}
    for job_id, values in changes.items():
        change = update(job).where(job.c.job_id == job_id).values(values)
        await stored.step(lambda connection, change=change: connection.execute(change))
    for job_id in changes:
        assert await stored.step(stored.store.try_start, key(job_id), owner="me") is Fenced.FENCED
    assert [each.job_id for each in await stored.step(stored.store.get_due, ["default"])] == ["good"]
    assert ids(await stored.claim()) == ["good"]
    assert (await stored.claim()).looked_at == 0


async def test_every_attempt_gets_a_token_of_its_own(stored: StoredJobs) -> None:
    await stored.submit(*submissions(300))
    tokens = [job.reference.token for job in (await stored.claim(limit=1000)).started]
    assert len(set(tokens)) == 300
    assert all(isinstance(token, UUID) for token in tokens)
    rows = await stored.rows()
    assert {row["token"] for row in rows["jobs_attempt"]} == set(tokens)
    assert {row["attempt_token"] for row in rows["jobs_job"]} == set(tokens)


async def test_a_claim_takes_no_more_than_its_limit(stored: StoredJobs) -> None:
    await stored.submit(*submissions(10), submission("urgent", priority=5))
    for limit, expected in ((3, 3), (1, 1), (1000, 7)):
        assert len((await stored.claim(limit=limit)).started) == expected


async def test_a_limit_outside_1_to_1000_is_refused(stored: StoredJobs) -> None:
    wrong: list[Any] = [0, -1, 1001, 2.5, True]
    for limit in wrong:
        with pytest.raises(ValueError, match="limit must be between 1 and 1000, not"):
            await stored.claim(limit=limit)
        with pytest.raises(ValueError, match="limit must be between 1 and 1000, not"):
            await stored.step(stored.store.get_due, ["default"], limit)


async def test_more_lanes_than_one_claim_looks_into_are_all_taken_in_the_end(stored: StoredJobs) -> None:
    await stored.submit(*(submission(f"p{priority}", priority=priority) for priority in range(-20, 21)))
    taken: list[str] = []
    while (report := await stored.claim(limit=50)).looked_at:
        taken += ids(report)
    assert taken == [f"p{priority}" for priority in range(20, -21, -1)]


async def test_an_owner_is_any_text_made_fit_to_be_stored(stored: StoredJobs) -> None:
    await stored.submit(submission())
    started = await stored.step(stored.store.try_start, key(), owner="host\x00\ud800" + "😀" * 500)
    assert isinstance(started, StartedJob)
    owner = (await stored.get()).owner
    assert owner is not None
    assert owner.startswith("host\ufffd\ufffd😀")
    assert utf16_units(owner) <= 200


class TestHandlers:
    """An executor that does not know a handler leaves its jobs to others."""

    KNOWN = (("invoices.render", 1), ("mail.send", 2))

    async def test_jobs_of_unknown_handlers_are_put_off_and_not_charged(self, stored: StoredJobs) -> None:
        await stored.submit(
            submission("known"),
            submission("newer", version=2),
            submission("other", handler="Invoices.render"),
            submission("mail", handler="mail.send", version=2),
        )
        report = await stored.claim(handlers=self.KNOWN)
        assert sorted(ids(report)) == ["known", "mail"]
        assert report.unknown == {("invoices.render", 2): 1, ("Invoices.render", 1): 1}
        for job_id in ("newer", "other"):
            job = await stored.get(job_id)
            assert (job.state, job.attempt_count, job.next_run) == (JobState.QUEUED, 0, at(30))
            assert job.owner is None
        assert (await stored.claim()).looked_at == 0
        stored.advance(30)
        assert sorted(ids(await stored.claim())) == ["newer", "other"]

    async def test_a_job_that_was_tried_before_is_put_off_too(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started(version=2)
        await stored.step(stored.store.recover, reference, requeue=True)
        report = await stored.claim(handlers=self.KNOWN)
        assert (report.started, [job.key for job in report.put_off]) == ((), [key()])
        assert await stored.states() == ("queued", ["interrupted"])

    async def test_unknown_jobs_in_front_do_not_hold_up_known_ones(self, stored: StoredJobs) -> None:
        await stored.submit(*submissions(25, version=2))
        stored.advance(1)
        await stored.submit(submission("known"))
        found: list[str] = []
        while (report := await stored.claim(limit=10, handlers=self.KNOWN)).looked_at:
            found += ids(report)
        assert found == ["known"]

    async def test_an_executor_without_handlers_starts_nothing(self, stored: StoredJobs) -> None:
        await stored.submit(submission())
        report = await stored.claim(handlers=[])
        assert (report.started, len(report.put_off)) == ((), 1)


async def test_the_lease_is_as_long_as_the_option_says(engine: AsyncEngine) -> None:
    stored = await StoredJobs(engine, JobOptions(lease_seconds=7.5)).create()
    await stored.submitted_and_started()
    assert (await stored.get()).lease_expires == at(7.5)


async def test_a_failure_between_job_and_attempt_leaves_the_job_queued(stored: StoredJobs) -> None:
    """A row of an attempt is there already, as after a restore of one table alone."""
    reference = await stored.submitted_and_started()
    reset = update(stored.tables.job).values(
        state="queued", queued_in="default", attempt_count=0, lease_expires_ticks=None
    )
    await stored.step(lambda connection: connection.execute(reset))
    before = await stored.rows()
    with pytest.raises(Exception, match=r"(?i)unique|duplicate") as caught:
        await stored.claim()
    assert "IntegrityError" in type(caught.value).__name__
    assert await stored.rows() == before
    gone = delete(stored.tables.attempt).where(stored.tables.attempt.c.token == reference.token)
    await stored.step(lambda connection: connection.execute(gone))
    assert ids(await stored.claim()) == ["j"]


async def test_the_databases_own_clock_drives_a_store(engine: AsyncEngine) -> None:
    stored = await StoredJobs(engine, clock=DatabaseClock()).create()
    before = UtcInstant.now().ticks - 10_000_000
    much_later = UtcInstant(UtcInstant.now().ticks + 10**10)
    await stored.submit(submission(), submission("later", not_before=much_later))
    assert ids(await stored.claim()) == ["j"]
    job = await stored.get()
    assert job.lease_expires is not None
    assert job.heartbeat is not None
    assert before <= job.created.ticks <= job.heartbeat.ticks <= UtcInstant.now().ticks + 10_000_000
    assert job.lease_expires.ticks - job.heartbeat.ticks == 60 * 10_000_000
