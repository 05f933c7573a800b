"""Whoever recovers jobs decides only for handlers that it has, and where the handler does not matter."""

from collections.abc import Sequence

import pytest

from jobs import ExpiredAttempt, Recovered, RetryAnswer, Settled
from tests.support.jobs import SCOPE, StoredJobs, submission, submissions

pytest_plugins = ("tests.support.jobs_fixture",)

KNOWN = [("invoices.render", 1)]
A_DAY = 86_400.0


async def lost(stored: StoredJobs, *names: str, **fields: object) -> None:
    """Jobs of the second version, whose executor has died."""
    await stored.submit(*(submission(name, version=2, **fields) for name in names))
    for name in names:
        await stored.start(name)


async def recovered(stored: StoredJobs) -> dict[str, Settled]:
    told = await stored.step(stored.store.recover_expired, handlers=KNOWN, requeue=lambda _: True)
    return {each.attempt.reference.job_id: each.settled for each in told}


async def test_those_of_other_handlers_are_left_as_they_are(stored: StoredJobs) -> None:
    await lost(stored, "new")
    await stored.submitted_and_started("old")
    await stored.submitted_and_started("other", handler="invoices.book")
    stored.advance(60)
    assert await recovered(stored) == {"old": Settled.QUEUED}
    for name in ("new", "other"):
        assert await stored.states(name) == ("running", ["running"])
    told = await stored.step(stored.store.recover_expired)
    assert {each.attempt.reference.job_id for each in told} == {"new", "other"}


async def test_those_that_were_cancelled_or_have_no_attempt_left_end_whoever_finds_them(
    stored: StoredJobs,
) -> None:
    await lost(stored, "cancelled")
    await stored.step(stored.store.cancel, SCOPE, "cancelled")
    await lost(stored, "used-up", max_attempts=1)
    stored.advance(60)
    assert await recovered(stored) == {"cancelled": Settled.CANCELLED, "used-up": Settled.INTERRUPTED}


async def test_who_has_no_handler_recovers_nothing(stored: StoredJobs) -> None:
    await lost(stored, "new")
    stored.advance(60)
    assert await stored.step(stored.store.recover_expired, handlers=[]) == []


class TestAbandoned:
    """Nobody who knows the handler has come for a long time."""

    async def recover(self, stored: StoredJobs, abandoned_seconds: float = A_DAY) -> Sequence[Recovered]:
        """What is recovered by one that knows the first version; it asks for no other."""

        def may_run_again(attempt: ExpiredAttempt) -> bool:
            assert (attempt.handler, attempt.handler_version) in KNOWN
            return True

        recover = stored.store.recover_expired
        return await stored.step(
            recover, handlers=KNOWN, abandoned_seconds=abandoned_seconds, requeue=may_run_again
        )

    async def test_a_day_later_it_ends_and_waits_for_an_operator(self, stored: StoredJobs) -> None:
        await lost(stored, "new")
        stored.advance(60 + A_DAY)
        assert await recovered(stored) == {}
        stored.advance(0.000001)
        assert await recovered(stored) == {"new": Settled.INTERRUPTED}
        assert await stored.states("new") == ("interrupted", ["interrupted"])
        job = await stored.get("new")
        assert (job.attempts_left, job.error_code) == (4, "lease_expired")
        assert (await stored.claim()).looked_at == 0
        assert await stored.step(stored.store.retry, SCOPE, "new") is RetryAnswer.QUEUED

    async def test_the_time_can_be_chosen_for_each_call(self, stored: StoredJobs) -> None:
        await lost(stored, "first")
        stored.advance(10)
        await lost(stored, "second")
        stored.advance(60)
        assert await self.recover(stored, abandoned_seconds=10) == []
        (ended,) = await self.recover(stored, abandoned_seconds=9.5)
        assert ended.attempt.reference.job_id == "first"
        stored.advance(0.5)
        (ended,) = await self.recover(stored, abandoned_seconds=0)
        assert ended.attempt.reference.job_id == "second"

    async def test_one_that_is_known_runs_again_however_late(self, stored: StoredJobs) -> None:
        await stored.submitted_and_started("old")
        stored.advance(10 * 86_400)
        (back,) = await self.recover(stored)
        assert back.settled is Settled.QUEUED

    async def test_who_knows_any_handler_abandons_nothing(self, stored: StoredJobs) -> None:
        await lost(stored, "new")
        stored.advance(10 * 86_400)
        (back,) = await stored.step(stored.store.recover_expired, abandoned_seconds=0)
        assert back.settled is Settled.QUEUED

    @pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
    async def test_a_time_that_is_none_is_refused(self, stored: StoredJobs, seconds: float) -> None:
        with pytest.raises(ValueError, match="abandoned_seconds must be at least 0 and finite"):
            await self.recover(stored, abandoned_seconds=seconds)


async def test_many_of_other_handlers_in_front_hide_none_that_is_known(stored: StoredJobs) -> None:
    await stored.submit(*submissions(50, prefix="new", version=2))
    assert len((await stored.claim()).started) == 50
    stored.advance(1)
    await stored.submit(*submissions(25, prefix="old"))
    assert len((await stored.claim()).started) == 25
    stored.advance(60)
    pages = []
    while page := await stored.step(stored.store.recover_expired, limit=10, handlers=KNOWN):
        pages.append([each.attempt.reference.job_id[:3] for each in page])
    assert pages == [["old"] * 10, ["old"] * 10, ["old"] * 5]
