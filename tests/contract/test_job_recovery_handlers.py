"""Whoever recovers jobs decides only for handlers that it has, and where the handler does not matter."""

from jobs import Settled
from tests.support.jobs import SCOPE, StoredJobs, submission

pytest_plugins = ("tests.support.jobs_fixture",)

KNOWN = [("invoices.render", 1)]


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
