"""A job whose handler kills its process each time ends after its attempts; its neighbours are done."""

from collections import Counter

import pytest

from jobs import JobState
from jobs.recover import LEASE_EXPIRED
from tests.faults.executor_process import executor_process
from tests.support.executing import BOOK, MAIL, Executing, job

ATTEMPTS = 5
QUICK = {"poll_interval_seconds": 0.02}
NEIGHBOURS = 7
"""Of each kind. The poison is in the middle of them, so that some have not begun when it kills them."""


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_it_ends_interrupted_with_a_reason_and_its_neighbours_succeed(executing: Executing) -> None:
    """They are with it in two processes; from then on each comes back at a moment of its own."""
    poison = job(MAIL, "poison", arguments={"poison": True}, max_attempts=ATTEMPTS)
    mails, books = (
        [job(handler, f"{handler}-{number}", max_attempts=ATTEMPTS) for number in range(NEIGHBOURS)]
        for handler in (MAIL, BOOK)
    )
    await executing.submit(*mails, poison, *books)
    for _ in range(ATTEMPTS):
        async with executor_process(executing, does="die", options=QUICK) as process:
            assert await process.wait() == -9
    async with executing.executor():
        await executing.until(JobState.SUCCEEDED, JobState.INTERRUPTED)
    assert await executing.faults() == []
    assert await executing.states("poison") == ("interrupted", ["interrupted"] * ATTEMPTS)
    assert (await executing.get("poison")).error_code == LEASE_EXPIRED
    assert [attempt for attempt, _ in executing.calls.of("poison")] == [1, 2, 3, 4, 5]
    states = Counter(row["state"] for row in (await executing.stored()).jobs)
    assert states == {"succeeded": 2 * NEIGHBOURS, "interrupted": 1}
