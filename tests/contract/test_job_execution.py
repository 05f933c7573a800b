"""What an executor writes under its token: progress, heartbeats, and one end that reads the cancel mark."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import delete

from jobs import (
    AttemptMissingError,
    AttemptReference,
    AttemptState,
    CancelAnswer,
    ExecutionStatus,
    JobState,
    ProgressAnswer,
    Settled,
    Settlement,
)
from tests.support.jobs import SCOPE, StoredJobs, at, submission, submissions
from uow.text import utf16_units

Verb = Callable[[StoredJobs, AttemptReference], Coroutine[Any, Any, bool]]
"""Tries to write something; whether it did."""


pytest_plugins = ("tests.support.jobs_fixture",)


async def progress(stored: StoredJobs, reference: AttemptReference) -> bool:
    answer = await stored.step(stored.store.progress, reference, 50, "half")
    return answer is ProgressAnswer.RECORDED


async def renew(stored: StoredJobs, reference: AttemptReference) -> bool:
    statuses = await stored.step(stored.store.renew, [reference])
    return statuses[reference] is ExecutionStatus.ACTIVE


async def succeed(stored: StoredJobs, reference: AttemptReference) -> bool:
    return await stored.step(stored.store.succeed, reference, "s3://a") is not Settled.FENCED


async def fail(stored: StoredJobs, reference: AttemptReference) -> bool:
    settled = await stored.step(stored.store.fail, reference, error_code="timeout", retry_after_seconds=5)
    return settled is not Settled.FENCED


async def interrupt(stored: StoredJobs, reference: AttemptReference) -> bool:
    return await stored.step(stored.store.interrupt, reference) is not Settled.FENCED


ENDS: tuple[Verb, ...] = (succeed, fail, interrupt)
VERBS: tuple[Verb, ...] = (progress, renew, *ENDS)


async def test_an_attempt_is_ours_until_just_before_its_expiry(stored: StoredJobs) -> None:
    await stored.submit(*submissions(len(VERBS)))
    started = (await stored.claim()).started
    stored.advance(59.999999)
    for verb, job in zip(VERBS, started, strict=True):
        assert await verb(stored, job.reference), verb


async def test_at_exactly_its_expiry_an_attempt_is_lost(stored: StoredJobs) -> None:
    reference = await stored.submitted_and_started()
    stored.advance(60)
    before = await stored.rows()
    for verb in VERBS:
        assert not await verb(stored, reference), verb
        assert await stored.rows() == before, verb


async def test_a_stale_token_changes_nothing_of_the_next_attempt(stored: StoredJobs) -> None:
    stale = await stored.submitted_and_started()
    stored.advance(60)
    await stored.step(stored.store.recover_expired)
    current = (await stored.start()).reference
    before = await stored.rows()
    for verb in VERBS:
        assert not await verb(stored, stale), verb
        assert not await verb(stored, replace(current, token=uuid4())), verb
        assert not await verb(stored, replace(current, ordinal=1)), verb
        assert not await verb(stored, replace(current, job_id="J")), verb
        assert await stored.rows() == before, verb
    assert await succeed(stored, current)


async def test_an_attempt_that_has_ended_cannot_be_written(stored: StoredJobs) -> None:
    await stored.submit(*submissions(len(ENDS)))
    references = [job.reference for job in (await stored.claim()).started]
    for end, reference in zip(ENDS, references, strict=True):
        assert await end(stored, reference)
    before = await stored.rows()
    for verb in VERBS:
        for reference in references:
            assert not await verb(stored, reference), verb
        assert await stored.rows() == before, verb


class TestProgress:
    async def test_it_is_recorded_in_the_job_and_in_the_attempt(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        assert await stored.step(stored.store.progress, reference, 40, "page 4 of 10")
        job, (attempt,) = await stored.get(), await stored.step(stored.store.attempts, SCOPE, "j")
        for each in (job, attempt):
            assert (each.progress_percent, each.progress_message) == (40, "page 4 of 10")

    async def test_it_never_falls_and_may_stay(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        answers = [await stored.step(stored.store.progress, reference, each) for each in (0, 40, 39, 40, 41)]
        assert answers == [
            ProgressAnswer.RECORDED,
            ProgressAnswer.RECORDED,
            ProgressAnswer.LOWER,
            ProgressAnswer.RECORDED,
            ProgressAnswer.RECORDED,
        ]
        assert (await stored.get()).progress_percent == 41

    async def test_a_hundred_percent_is_no_end(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        await stored.step(stored.store.progress, reference, 100)
        assert (await stored.get()).state is JobState.RUNNING
        assert await succeed(stored, reference)

    async def test_it_stops_when_a_cancellation_is_asked_for(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        await stored.step(stored.store.progress, reference, 40)
        await stored.step(stored.store.cancel, SCOPE, "j")
        answer = await stored.step(stored.store.progress, reference, 50)
        assert answer is ProgressAnswer.CANCEL_REQUESTED
        assert (await stored.get()).progress_percent == 40

    async def test_another_percentage_is_refused(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        wrong: list[Any] = [-1, 101, 50.0, True, None, "50"]
        for percent in wrong:
            with pytest.raises(ValueError, match="percent must be a whole number, 0 to 100"):
                await stored.step(stored.store.progress, reference, percent)

    async def test_the_next_attempt_begins_anew(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        await stored.step(stored.store.progress, reference, 90, "almost")
        await stored.step(stored.store.fail, reference, error_code="timeout", retry_after_seconds=0)
        job = await stored.get()
        assert (job.progress_percent, job.progress_message) == (None, None)
        again = (await stored.start()).reference
        assert await stored.step(stored.store.progress, again, 10) is ProgressAnswer.RECORDED
        first, second = await stored.step(stored.store.attempts, SCOPE, "j")
        assert (first.progress_percent, second.progress_percent) == (90, 10)


class TestEnds:
    async def test_success_keeps_the_result(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        stored.advance(5)
        assert await stored.step(stored.store.succeed, reference, "s3://a") is Settled.SUCCEEDED
        job, (attempt,) = await stored.get(), await stored.step(stored.store.attempts, SCOPE, "j")
        assert (job.state, job.result_reference, job.completed) == (JobState.SUCCEEDED, "s3://a", at(5))
        assert (job.owner, job.lease_expires, job.heartbeat) == (None, None, None)
        assert (attempt.state, attempt.result_reference, attempt.ended) == ("succeeded", "s3://a", at(5))

    async def test_failure_keeps_the_reason(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        settled = await stored.step(stored.store.fail, reference, error_code="e", error_detail="why")
        assert settled is Settled.FAILED
        job, (attempt,) = await stored.get(), await stored.step(stored.store.attempts, SCOPE, "j")
        assert (job.state, job.attempts_left) == (JobState.FAILED, 4)
        for each in (job, attempt):
            assert (each.error_code, each.error_detail, each.result_reference) == ("e", "why", None)

    async def test_interruption_keeps_the_reason(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        settled = await stored.step(stored.store.interrupt, reference, error_detail="shutdown")
        assert settled is Settled.INTERRUPTED
        assert (await stored.get()).error_detail == "shutdown"
        assert await stored.states() == ("interrupted", ["interrupted"])

    async def test_a_retry_is_another_attempt_of_the_same_job(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started(max_attempts=2)
        settled = await stored.step(
            stored.store.fail, reference, error_code="timeout", retry_after_seconds=7.5
        )
        assert settled is Settled.QUEUED
        job = await stored.get()
        assert (job.state, job.next_run, job.error_code) == (JobState.QUEUED, at(7.5), "timeout")
        assert (await stored.claim()).looked_at == 0
        stored.advance(7.5)
        last = (await stored.claim()).started[0]
        assert (last.reference.ordinal, last.attempts_left) == (2, 0)
        settled = await stored.step(
            stored.store.fail, last.reference, error_code="timeout", retry_after_seconds=0
        )
        assert settled is Settled.FAILED
        assert await stored.states() == ("failed", ["failed", "failed"])

    async def test_success_forgets_the_errors_of_earlier_attempts(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        await stored.step(stored.store.fail, reference, error_code="timeout", retry_after_seconds=0)
        await succeed(stored, (await stored.start()).reference)
        job = await stored.get()
        assert (job.error_code, job.error_detail) == (None, None)

    async def test_a_batch_ends_in_many_ways_at_once(self, stored: StoredJobs) -> None:
        await stored.submit(*submissions(7, max_attempts=1))
        started = [job.reference for job in (await stored.claim()).started]
        started.sort(key=lambda reference: reference.job_id)
        await stored.step(stored.store.cancel, SCOPE, "j00004")
        settlements = [
            Settlement.succeed(started[0], result_reference="s3://a"),
            Settlement.fail(started[1], error_code="one", error_detail="1"),
            Settlement.fail(started[2], error_code="two", retry_after_seconds=0),
            Settlement.interrupt(started[3], requeue=True, counts=False, delay_seconds=5),
            Settlement.succeed(started[4], result_reference="s3://gone"),
            Settlement.succeed(replace(started[5], token=uuid4())),
            Settlement.interrupt(started[6], requeue=True),
        ]
        assert await stored.settle(*settlements[3:], *settlements[:3]) == [
            Settled.QUEUED,
            Settled.CANCELLED,
            Settled.FENCED,
            Settled.INTERRUPTED,
            Settled.SUCCEEDED,
            Settled.FAILED,
            Settled.FAILED,
        ]
        jobs = [await stored.get(f"j{number:05d}") for number in range(7)]
        assert [job.state.value for job in jobs] == [
            "succeeded", "failed", "failed", "queued", "cancelled", "running", "interrupted",
        ]  # fmt: skip
        assert [job.error_code for job in jobs] == [
            None, "one", "two", "interrupted", None, None, "interrupted",
        ]  # fmt: skip
        assert [job.result_reference for job in jobs] == ["s3://a", *[None] * 6]
        assert (jobs[3].attempts_left, jobs[3].next_run) == (1, at(5))

    async def test_an_attempt_is_named_once(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        with pytest.raises(ValueError, match="settled once"):
            await stored.settle(Settlement.succeed(reference), Settlement.interrupt(reference))
        assert await stored.settle() == []

    async def test_the_old_and_the_new_attempt_of_one_job_may_come_together(self, stored: StoredJobs) -> None:
        old = await stored.submitted_and_started()
        stored.advance(60)
        await stored.step(stored.store.recover_expired)
        new = (await stored.start()).reference
        assert await stored.settle(Settlement.fail(old, error_code="late"), Settlement.succeed(new)) == [
            Settled.FENCED,
            Settled.SUCCEEDED,
        ]
        assert await stored.states() == ("succeeded", ["interrupted", "succeeded"])

    async def test_a_job_of_the_same_identity_stored_anew_is_not_ended_by_the_old_token(
        self, stored: StoredJobs
    ) -> None:
        old = await stored.submitted_and_started()
        await stored.settle(Settlement.succeed(old))
        await stored.step(stored.store.cleanup, JobState.SUCCEEDED, older_than_seconds=-1)
        new = await stored.submitted_and_started(queue="other")
        assert (old.key, old.ordinal) == (new.key, new.ordinal)
        assert await stored.settle(Settlement.fail(old, error_code="late"), Settlement.succeed(new)) == [
            Settled.FENCED,
            Settled.SUCCEEDED,
        ]


class TestCancellation:
    async def test_it_comes_before_an_end_that_is_written_later(self, stored: StoredJobs) -> None:
        for end in ENDS:
            job_id = end.__name__
            reference = await stored.submitted_and_started(job_id)
            for _ in range(2):
                assert await stored.step(stored.store.cancel, SCOPE, job_id) is CancelAnswer.REQUESTED
            assert (await stored.get(job_id)).cancel_requested
            assert await end(stored, reference)
            assert await stored.states(job_id) == ("cancelled", ["cancelled"])
            (attempt,) = await stored.step(stored.store.attempts, SCOPE, job_id)
            assert ((await stored.get(job_id)).result_reference, attempt.result_reference) == (None, None)

    async def test_it_changes_nothing_after_the_end(self, stored: StoredJobs) -> None:
        for end in ENDS:
            await end(stored, await stored.submitted_and_started(end.__name__, max_attempts=1))
        before = await stored.rows()
        for end in ENDS:
            assert await stored.step(stored.store.cancel, SCOPE, end.__name__) is CancelAnswer.FINAL
        assert await stored.rows() == before

    async def test_its_holder_learns_of_it(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        ask = stored.store.execution_status
        assert await stored.step(ask, reference) is ExecutionStatus.ACTIVE
        await stored.step(stored.store.cancel, SCOPE, "j")
        assert await stored.step(ask, reference) is ExecutionStatus.CANCEL_REQUESTED
        renewed = await stored.step(stored.store.renew, [reference])
        assert renewed == {reference: ExecutionStatus.CANCEL_REQUESTED}
        await succeed(stored, reference)
        assert await stored.step(ask, reference) is ExecutionStatus.ENDED


class TestLeases:
    async def test_a_renewed_lease_counts_from_the_renewal(self, stored: StoredJobs) -> None:
        reference = await stored.submitted_and_started()
        for _ in range(3):
            stored.advance(59)
            assert await renew(stored, reference)
        job = await stored.get()
        assert (job.heartbeat, job.lease_expires) == (at(177), at(237))
        assert await stored.step(stored.store.recover_expired) == []

    async def test_many_are_renewed_and_asked_at_once(self, stored: StoredJobs) -> None:
        await stored.submit(*submissions(5))
        references = [job.reference for job in (await stored.claim()).started]
        await stored.settle(Settlement.succeed(references[0]))
        await stored.step(stored.store.cancel, SCOPE, references[1].job_id)
        stranger = replace(references[2], token=uuid4())
        expected = {
            references[0]: ExecutionStatus.ENDED,
            references[1]: ExecutionStatus.CANCEL_REQUESTED,
            stranger: ExecutionStatus.ENDED,
            **dict.fromkeys(references[2:], ExecutionStatus.ACTIVE),
        }
        assert await stored.step(stored.store.execution_status_many, list(expected)) == expected
        stored.advance(5)
        assert await stored.step(stored.store.renew, list(expected)) == expected
        assert {job.lease_expires for job in [await stored.get(each.job_id) for each in references[2:]]} == {
            at(65)
        }
        assert await stored.step(stored.store.renew, []) == {}
        assert await stored.step(stored.store.execution_status_many, []) == {}


HORRORS = {
    "nul": "a\x00b",
    "surrogate": "a\ud800b",
    "10 MB": "😀" * 2_500_000,
    "quotes": "'\"\\ %s :x {} \n",
}


@pytest.mark.parametrize("text", HORRORS.values(), ids=HORRORS.keys())
async def test_no_text_leaves_a_job_running(stored: StoredJobs, text: str) -> None:
    await stored.submit(*submissions(3))
    done, failed, interrupted = [job.reference for job in (await stored.claim()).started]
    assert await stored.step(stored.store.progress, done, 50, text) is ProgressAnswer.RECORDED
    settled = await stored.settle(
        Settlement.succeed(done, result_reference=text),
        Settlement.fail(failed, error_code=text, error_detail=text),
        Settlement.interrupt(interrupted, error_detail=text),
    )
    assert settled == [Settled.SUCCEEDED, Settled.FAILED, Settled.INTERRUPTED]
    expected = text.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")[:500]
    for reference in (done, failed, interrupted):
        job = await stored.get(reference.job_id)
        for kept in (job.progress_message, job.result_reference, job.error_detail):
            assert kept is None or (kept.startswith(expected[:5]) and utf16_units(kept) <= 1000)
    assert (await stored.get(done.job_id)).result_reference == expected
    assert (await stored.get(done.job_id)).progress_message == expected


class TestMissingAttempt:
    """The row of a running attempt was deleted by hand: no half of a transition is written."""

    async def without_attempt(self, stored: StoredJobs, job_id: str = "j") -> AttemptReference:
        reference = await stored.submitted_and_started(job_id)
        attempt = stored.tables.attempt
        gone = delete(attempt).where(attempt.c.token == reference.token)
        await stored.step(lambda connection: connection.execute(gone))
        return reference

    async def test_a_single_transition_fails_as_a_whole(self, stored: StoredJobs) -> None:
        reference = await self.without_attempt(stored)
        before = await stored.rows()
        for verb in (progress, *ENDS):
            with pytest.raises(AttemptMissingError) as caught:
                await verb(stored, reference)
            assert caught.value.reference == reference
        with pytest.raises(AttemptMissingError):
            await stored.step(stored.store.recover, reference, requeue=True)
        assert await stored.rows() == before

    async def test_in_a_batch_the_others_are_settled(self, stored: StoredJobs) -> None:
        broken = await self.without_attempt(stored, "broken")
        good = await stored.submitted_and_started("good")
        settled = await stored.settle(Settlement.succeed(broken), Settlement.succeed(good))
        assert settled == [Settled.ATTEMPT_MISSING, Settled.SUCCEEDED]
        assert await stored.states("broken") == ("running", [])
        assert await stored.states("good") == ("succeeded", ["succeeded"])


async def test_the_holder_can_ask_how_its_attempt_stands(stored: StoredJobs) -> None:
    reference = await stored.submitted_and_started()
    ask = stored.store.find_attempt_state
    assert await stored.step(ask, reference) is AttemptState.RUNNING
    assert await stored.step(ask, replace(reference, token=uuid4())) is None
    await succeed(stored, reference)
    assert await stored.step(ask, reference) is AttemptState.SUCCEEDED


async def test_a_planned_shutdown_uses_up_no_attempt(stored: StoredJobs) -> None:
    await stored.submit(submission(max_attempts=1))
    for ordinal in range(1, 4):
        reference = (await stored.start()).reference
        assert reference.ordinal == ordinal
        settled = await stored.settle(Settlement.interrupt(reference, requeue=True, counts=False))
        assert settled == [Settled.QUEUED]
    assert (await stored.get()).attempts_left == 1
    assert await stored.settle(Settlement.interrupt((await stored.start()).reference, requeue=True)) == [
        Settled.INTERRUPTED
    ]
    assert await stored.states() == ("interrupted", ["interrupted"] * 4)
