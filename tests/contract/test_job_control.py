"""Recovery, what people do to the jobs of their scope, counts and retention."""

from collections.abc import Sequence
from uuid import uuid4

import pytest
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs import (
    CancelAnswer,
    ExpiredAttempt,
    JobCursor,
    JobFilter,
    JobNotFoundError,
    JobOptions,
    JobRecord,
    JobState,
    JobStore,
    RetryAnswer,
    Settled,
    Settlement,
    add_job_tables,
)
from jobs.state import FINAL
from tests.support.jobs import SCOPE, StoredJobs, at, ids, key, submission, submissions
from uow.text import TextError

pytest_plugins = ("tests.support.jobs_fixture",)

OTHER = "tenant-2"


class TestRecovery:
    async def test_an_expired_attempt_ends_and_its_job_is_queued_at_once(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started(priority=3)
        stored.advance(59.999999)
        assert await stored.step(stored.store.recover_expired) == []
        stored.advance(0.000001)
        (recovered,) = await stored.step(stored.store.recover_expired)
        assert recovered.settled is Settled.QUEUED
        assert recovered.attempt.reference == reference
        assert recovered.attempt.owner == "executor-1"
        assert await stored.states() == ("queued", ["interrupted"])
        job, (attempt,) = await stored.get(), await stored.step(stored.store.attempts, SCOPE, "j")
        assert (job.next_run, job.attempts_left, job.error_code) == (at(60), 4, "lease_expired")
        assert (attempt.ended, attempt.error_code) == (at(60), "lease_expired")
        assert ids(await stored.claim()) == ["j"]

    async def test_a_job_that_kills_its_executor_each_time_ends_after_its_attempts_with_a_reason(
        self, stored: StoredJobs
    ) -> None:
        await stored.submit(submission(max_attempts=3))
        outcomes = []
        for _ in range(3):
            await stored.start()
            stored.advance(60)
            (recovered,) = await stored.step(stored.store.recover_expired)
            outcomes.append(recovered.settled)
        assert outcomes == [Settled.QUEUED, Settled.QUEUED, Settled.INTERRUPTED]
        job = await stored.get()
        assert (job.state, job.attempts_left, job.error_code) == (JobState.INTERRUPTED, 0, "lease_expired")
        assert job.error_detail
        assert "did not renew the lease" in job.error_detail

    async def test_what_may_not_run_again_is_not_queued(self, stored: StoredJobs) -> None:
        await stored.submit(submission("once", handler="mail.send"), submission("again"))
        await stored.claim()
        stored.advance(60)

        def may_run_again(attempt: ExpiredAttempt) -> bool:
            return (attempt.handler, attempt.handler_version) != ("mail.send", 1)

        recovered = await stored.step(stored.store.recover_expired, requeue=may_run_again)
        assert {each.attempt.reference.job_id: each.settled for each in recovered} == {
            "once": Settled.INTERRUPTED,
            "again": Settled.QUEUED,
        }

    async def test_a_cancellation_that_was_asked_for_ends_the_job(self, stored: StoredJobs) -> None:
        await stored.submitted_and_started()
        await stored.step(stored.store.cancel, SCOPE, "j")
        stored.advance(60)
        (recovered,) = await stored.step(stored.store.recover_expired)
        assert recovered.settled is Settled.CANCELLED
        assert await stored.states() == ("cancelled", ["cancelled"])

    async def test_it_goes_page_by_page_the_longest_expired_first(self, stored: StoredJobs) -> None:
        for number in range(5):
            await stored.submitted_and_started(f"j{number}")
            stored.advance(1)
        stored.advance(60)
        pages = []
        while page := await stored.step(stored.store.recover_expired, limit=2):
            pages.append([each.attempt.reference.job_id for each in page])
        assert pages == [["j0", "j1"], ["j2", "j3"], ["j4"]]

    async def test_by_its_token_an_attempt_is_recovered_whether_its_lease_has_expired_or_not(
        self, stored: StoredJobs
    ) -> None:
        reference = await stored.submitted_and_started()
        recover = stored.store.recover
        assert await stored.step(recover, reference, requeue=True, counts=False) is Settled.QUEUED
        assert await stored.step(recover, reference, requeue=True) is Settled.FENCED
        again = (await stored.start()).reference
        stored.advance(3600)
        assert await stored.step(recover, reference, requeue=True) is Settled.FENCED
        assert await stored.step(recover, again, requeue=False) is Settled.INTERRUPTED
        job = await stored.get()
        assert (job.attempt_count, job.attempts_left) == (2, 4)

    async def test_a_broken_job_neither_blocks_nor_repeats_it(self, stored: StoredJobs) -> None:
        """The row of its attempt is gone: it is told, and looked at again a lease later."""
        attempt = stored.tables.attempt
        for job_id in ("broken", "good"):
            await stored.submitted_and_started(job_id)
        gone = attempt.delete().where(attempt.c.job_id == "broken")
        await stored.step(lambda connection: connection.execute(gone))
        stored.advance(60)
        pages = []
        while page := await stored.step(stored.store.recover_expired, limit=1):
            pages += [(each.attempt.reference.job_id, each.settled) for each in page]
        assert sorted(pages) == [("broken", Settled.ATTEMPT_MISSING), ("good", Settled.QUEUED)]
        broken = await stored.get("broken")
        assert (broken.state, broken.lease_expires) == (JobState.RUNNING, at(120))


class TestCancel:
    async def test_a_queued_job_is_cancelled_at_once_and_uses_up_no_attempt(self, stored: StoredJobs) -> None:
        await stored.submit(submission())
        stored.advance(5)
        assert await stored.step(stored.store.cancel, SCOPE, "j") is CancelAnswer.CANCELLED
        job = await stored.get()
        assert (job.state, job.completed, job.attempts_left) == (JobState.CANCELLED, at(5), 5)
        assert (await stored.claim()).looked_at == 0
        assert await stored.states() == ("cancelled", [])

    async def test_what_is_not_in_the_scope_is_not_found(self, stored: StoredJobs) -> None:
        await stored.submit(submission())
        before = await stored.rows()
        for scope, job_id in ((OTHER, "j"), (SCOPE, "J"), (SCOPE, "j ")):
            assert await stored.step(stored.store.cancel, scope, job_id) is CancelAnswer.NOT_FOUND
        assert await stored.rows() == before


class TestRetry:
    async def failed(self, stored: StoredJobs, **fields: int) -> None:
        reference = await stored.submitted_and_started(**fields)
        await stored.step(stored.store.progress, reference, 40, "half")
        await stored.settle(Settlement.fail(reference, error_code="timeout", error_detail="too long"))

    async def test_it_clears_what_the_last_attempt_left(self, stored: StoredJobs) -> None:
        await self.failed(stored)
        assert await stored.step(stored.store.retry, SCOPE, "j", next_run=at(90)) is RetryAnswer.QUEUED
        job = await stored.get()
        assert (job.state, job.next_run, job.initial_not_before) == (JobState.QUEUED, at(90), None)
        assert (job.progress_percent, job.progress_message, job.error_code, job.error_detail) == (None,) * 4
        assert (job.completed, job.attempt_count, job.attempts_left) == (None, 1, 4)
        (attempt,) = await stored.step(stored.store.attempts, SCOPE, "j")
        assert (attempt.state, attempt.progress_percent, attempt.error_code) == ("failed", 40, "timeout")
        stored.advance(90)
        assert (await stored.start()).reference.ordinal == 2

    async def test_a_cancelled_job_is_no_longer_marked(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        await stored.step(stored.store.cancel, SCOPE, "j")
        await stored.settle(Settlement.succeed(reference, result_reference="s3://a"))
        assert await stored.step(stored.store.retry, SCOPE, "j") is RetryAnswer.QUEUED
        assert not (await stored.get()).cancel_requested
        again = (await stored.start()).reference
        assert await stored.settle(Settlement.succeed(again)) == [Settled.SUCCEEDED]

    async def test_of_two_one_is_accepted(self, stored: StoredJobs) -> None:
        await self.failed(stored)
        answers = [await stored.step(stored.store.retry, SCOPE, "j") for _ in range(2)]
        assert answers == [RetryAnswer.QUEUED, RetryAnswer.INVALID_STATE]

    async def test_the_attempts_limit_it(self, stored: StoredJobs) -> None:
        await self.failed(stored, max_attempts=1)
        before = await stored.rows()
        assert await stored.step(stored.store.retry, SCOPE, "j") is RetryAnswer.NO_ATTEMPTS_LEFT
        assert await stored.rows() == before

    async def test_queued_running_and_succeeded_jobs_are_left_alone(self, stored: StoredJobs) -> None:
        await stored.submit(submission("queued", queue="other"), submission("running"), submission("done"))
        started = {job.reference.job_id: job.reference for job in (await stored.claim()).started}
        await stored.settle(Settlement.succeed(started["done"]))
        before = await stored.rows()
        for job_id in ("queued", "running", "done"):
            assert await stored.step(stored.store.retry, SCOPE, job_id) is RetryAnswer.INVALID_STATE
        assert await stored.step(stored.store.retry, OTHER, "done") is RetryAnswer.NOT_FOUND
        assert await stored.rows() == before

    async def test_a_late_writer_of_an_earlier_attempt_stays_fenced(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        await stored.settle(Settlement.fail(reference, error_code="timeout"))
        await stored.step(stored.store.retry, SCOPE, "j")
        assert await stored.settle(Settlement.succeed(reference)) == [Settled.FENCED]
        await stored.start()
        assert await stored.settle(Settlement.succeed(reference)) == [Settled.FENCED]


class TestLooking:
    async def test_another_scopes_job_is_not_found(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        assert (await stored.get()).key == key()
        with pytest.raises(JobNotFoundError, match="there is no job 'j' in this scope"):
            await stored.get(scope=OTHER)
        assert await stored.step(stored.store.find, OTHER, "j") is None
        assert await stored.step(stored.store.attempts, OTHER, "j") == []
        assert await stored.step(stored.store.list, OTHER) == []
        assert len(await stored.step(stored.store.attempts, SCOPE, "j")) == reference.ordinal

    @pytest.mark.parametrize("job_id", ["", "a\x00b", "\ud800", "x" * 201])
    async def test_an_id_that_no_job_can_have_is_told(self, stored: StoredJobs, job_id: str) -> None:
        for verb in (stored.store.find, stored.store.cancel, stored.store.retry, stored.store.attempts):
            with pytest.raises(TextError, match="job_id must"):
                await stored.step(verb, SCOPE, job_id)

    async def test_pages_go_from_the_latest_to_the_earliest(self, stored: StoredJobs) -> None:
        for number in range(7):
            await stored.submit(submission(f"j{number}"), submission(f"k{number}"))
            stored.advance(number % 2)
        await stored.submit(submission("other", scope=OTHER))
        expected = await self.listed(stored, limit=1000)
        assert len(expected) == 14
        assert expected == sorted(expected, reverse=True)
        first = await stored.step(stored.store.list, SCOPE, None, None, 5)
        await stored.submit(submission("newer"))
        found = [(job.created.ticks, job.job_id) for job in first]
        while page := await stored.step(stored.store.list, SCOPE, None, JobCursor.after(first[-1]), 5):
            found += [(job.created.ticks, job.job_id) for job in page]
            first = page
        assert found == expected

    async def listed(self, stored: StoredJobs, limit: int) -> list[tuple[int, str]]:
        jobs = await stored.step(stored.store.list, SCOPE, None, None, limit)
        return [(job.created.ticks, job.job_id) for job in jobs]

    async def test_a_filter_asks_for_all_it_says(self, stored: StoredJobs) -> None:
        await stored.submit(
            submission("a", queue="mail"),
            submission("b", queue="Mail"),
            submission("c", handler="mail.send", queue="mail"),
        )
        stored.advance(10)
        await stored.submit(submission("d", queue="mail"))
        await stored.step(stored.store.cancel, SCOPE, "a")

        async def found(only: JobFilter) -> list[str]:
            return _ids(await stored.step(stored.store.list, SCOPE, only))

        assert await found(JobFilter(queue="mail")) == ["d", "c", "a"]
        assert await found(JobFilter(queue="mail", handler="mail.send")) == ["c"]
        assert await found(JobFilter(states=frozenset({JobState.CANCELLED, JobState.FAILED}))) == ["a"]
        assert await found(JobFilter(created_from=at(10))) == ["d"]
        assert await found(JobFilter(created_before=at(10))) == ["c", "b", "a"]
        assert await found(JobFilter(created_from=at(11))) == []


class TestCounts:
    async def test_they_tell_each_queue_and_what_ended_without_success(self, stored: StoredJobs) -> None:
        await stored.submit(
            *submissions(4, queue="mail"), submission("late", queue="later", not_before=at(60))
        )
        stored.advance(2.5)
        await stored.submit(submission("young", queue="mail"))
        started = (await stored.claim("mail", limit=3)).started
        await stored.settle(
            Settlement.succeed(started[0].reference), Settlement.fail(started[1].reference, error_code="e")
        )
        await stored.step(stored.store.cancel, SCOPE, "young")
        counts = await stored.step(stored.store.counts)
        assert [(each.queue, each.queued, each.running) for each in counts.queues] == [
            ("later", 1, 0),
            ("mail", 1, 1),
        ]
        assert [each.oldest_due_age_seconds for each in counts.queues] == [None, 2.5]
        assert (counts.failed, counts.cancelled, counts.interrupted) == (1, 1, 0)
        assert await stored.step(stored.store.running) == {"mail": 1}

    async def test_nothing_stored_counts_nothing(self, stored: StoredJobs) -> None:
        counts = await stored.step(stored.store.counts)
        assert (counts.queues, counts.failed, counts.cancelled, counts.interrupted) == ((), 0, 0, 0)


class TestRetention:
    async def ended(self, stored: StoredJobs) -> None:
        """One job of each final state with its attempts, one queued and one running."""
        await stored.submit(*(submission(state.value) for state in FINAL), submission("running"))
        await stored.submit(submission("queued", queue="other"))
        started = {job.reference.job_id: job.reference for job in (await stored.claim()).started}
        await stored.step(stored.store.cancel, SCOPE, "cancelled")
        await stored.settle(
            Settlement.succeed(started["succeeded"]),
            Settlement.fail(started["failed"], error_code="e"),
            Settlement.succeed(started["cancelled"]),
            Settlement.interrupt(started["interrupted"]),
        )

    async def test_it_is_off_by_default(self, stored: StoredJobs) -> None:
        await self.ended(stored)
        stored.advance(10**8)
        assert [await stored.step(stored.store.cleanup, state) for state in FINAL] == [0] * 4
        assert len((await stored.rows())["jobs_job"]) == 6

    async def test_each_state_has_a_retention_of_its_own_and_attempts_go_with_their_job(
        self, stored: StoredJobs
    ) -> None:
        await self.ended(stored)
        options = JobOptions(succeeded_retention_seconds=60, interrupted_retention_seconds=0)
        store = JobStore(stored.tables, options=options, clock=stored.clock)
        stored.advance(60)
        assert [await stored.step(store.cleanup, state) for state in FINAL] == [0, 0, 0, 1]
        stored.advance(0.000001)
        assert [await stored.step(store.cleanup, state) for state in FINAL] == [1, 0, 0, 0]
        left = {"failed", "cancelled", "running", "queued"}
        rows = await stored.rows()
        assert {row["job_id"] for row in rows["jobs_job"]} == left
        assert {row["job_id"] for row in rows["jobs_attempt"]} == left - {"queued"}

    async def test_it_deletes_the_oldest_first_in_bounded_batches(self, stored: StoredJobs) -> None:
        for number in range(5):
            reference = await stored.submitted_and_started(f"j{number}")
            await stored.settle(Settlement.succeed(reference))
            stored.advance(1)
        deleted = []
        for _ in range(3):
            cleanup = stored.store.cleanup
            deleted.append(await stored.step(cleanup, JobState.SUCCEEDED, older_than_seconds=0.5, limit=2))
            left = {row["job_id"] for row in (await stored.rows())["jobs_job"]}
            assert left == {f"j{number}" for number in range(sum(deleted), 5)}
        assert deleted == [2, 2, 1]

    async def test_only_final_jobs_are_deleted(self, stored: StoredJobs) -> None:
        for state in (JobState.QUEUED, JobState.RUNNING):
            with pytest.raises(ValueError, match="only final jobs are deleted"):
                await stored.step(stored.store.cleanup, state, older_than_seconds=0)

    async def test_a_retried_job_is_kept(self, stored: StoredJobs) -> None:
        await self.ended(stored)
        await stored.step(stored.store.retry, SCOPE, "failed")
        stored.advance(1)
        assert await stored.step(stored.store.cleanup, JobState.FAILED, older_than_seconds=0) == 0


async def test_jobs_of_a_thousand_scopes_are_settled_and_deleted_in_one_batch(stored: StoredJobs) -> None:
    requests = [submission(str(uuid4()), scope=f"tenant {number}") for number in range(1000)]
    await stored.submit(*requests)
    references = [job.reference for job in (await stored.claim(limit=1000)).started]
    assert len(await stored.step(stored.store.renew, references)) == 1000
    assert await stored.settle(*map(Settlement.succeed, references)) == [Settled.SUCCEEDED] * 1000
    stored.advance(1)
    assert await stored.step(stored.store.cleanup, JobState.SUCCEEDED, older_than_seconds=0) == 1000
    assert await stored.rows() == {"jobs_job": [], "jobs_attempt": []}


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_the_tables_may_live_in_a_schema_of_their_own(engine: AsyncEngine) -> None:
    metadata = MetaData()
    add_job_tables(metadata, schema="work")
    stored = StoredJobs(engine, metadata=metadata)
    await stored.step(lambda connection: connection.execute(text("CREATE SCHEMA work")))
    await stored.create()
    reference = await stored.submitted_and_started()
    await stored.step(stored.store.progress, reference, 50)
    assert await stored.step(stored.store.renew, [reference]) == {reference: "active"}
    assert await stored.settle(Settlement.fail(reference, error_code="e", retry_after_seconds=0)) == [
        "queued"
    ]
    assert ids(await stored.claim(handlers=[])) == []
    assert await stored.step(stored.store.cancel, SCOPE, "j") is CancelAnswer.CANCELLED
    stored.advance(1)
    assert await stored.step(stored.store.cleanup, JobState.CANCELLED, older_than_seconds=0) == 1


def _ids(jobs: Sequence[JobRecord]) -> list[str]:
    return [job.job_id for job in jobs]
