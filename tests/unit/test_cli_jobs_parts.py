"""Small parts of the commands on jobs: what counts as a change, how a job is told, outages while watching."""

import json
from dataclasses import replace

import pytest
from sqlalchemy.exc import OperationalError

from jobs import JobKey, JobRecord, JobState, scope_hash
from relay.cli.jobs_watch import follow
from relay.cli.jobs_watch_view import standing_text, watching
from relay.cli.screen import Screen
from uow.ticks import UtcInstant

START = UtcInstant.parse("2026-01-01T00:00:00Z")
RUNNING = JobRecord(
    key=JobKey(scope_hash("tenant-1"), "a"),
    handler="reports.build",
    handler_version=1,
    queue="default",
    priority=0,
    max_attempts=5,
    initial_not_before=None,
    next_run=START,
    created=START,
    state=JobState.RUNNING,
    attempt_count=2,
    attempts_left=3,
    progress_percent=50,
    heartbeat=START,
    lease_expires=START,
)


def test_a_renewed_lease_is_no_change_and_progress_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    later = UtcInstant(START.ticks + 1)
    with watching(Screen(json=True)) as show:
        for job in (
            RUNNING,
            replace(RUNNING, heartbeat=later, lease_expires=later),
            replace(RUNNING, heartbeat=later, progress_message="half"),
        ):
            show(job)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["progress_message"] for each in told] == [None, "half"]
    assert told[1]["heartbeat"] == "2026-01-01T00:00:00.0000001Z"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "running  attempt 2 of 5  50 %"),
        ({"cancel_requested": True}, "running, to be cancelled  attempt 2 of 5  50 %"),
        ({"progress_message": "a\nb\x1b[2J"}, "running  attempt 2 of 5  50 %  a\\nb\\x1b[2J"),
        (
            {"state": JobState.QUEUED, "progress_percent": None},
            "queued  waits for attempt 3 of 5  due 2026-01-01 00:00:00Z",
        ),
        (
            {"state": JobState.FAILED, "attempts_left": 0, "error_code": "timeout"},
            "failed  attempt 2 of 2  50 %  timeout",
        ),
    ],
)
def test_a_job_is_told_in_one_line(changes: dict[str, object], told: str) -> None:
    assert standing_text(replace(RUNNING, **changes)) == told  # type: ignore[arg-type]


async def test_a_watch_waits_for_a_database_that_is_away_and_says_so_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    away = OperationalError("SELECT", {}, OSError("connection refused"))
    ended = replace(RUNNING, state=JobState.SUCCEEDED)
    answers = iter([RUNNING, away, away, RUNNING, away, ended])
    shown: list[JobRecord] = []

    async def look() -> JobRecord:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await follow(look, shown.append, Screen(), interval=0, deadline=float("inf")) is ended
    assert shown == [RUNNING, RUNNING, ended]
    assert capsys.readouterr().err.count("The database cannot be asked at the moment; waiting for it.\n") == 2


async def test_a_watch_does_not_wait_for_what_no_outage_explains() -> None:
    async def look() -> JobRecord:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await follow(look, lambda job: None, Screen(), interval=0, deadline=float("inf"))
