"""How jobs look, to people and to programs; never their arguments, unless they are asked for."""

from collections.abc import Sequence
from typing import Any

from jobs.snapshot import AttemptRecord, JobRecord
from jobs.state import FINAL, JobState
from relay.cli.exit_code import ExitCode
from relay.cli.failed_view import moment_text
from relay.cli.screen import Screen, as_rows
from uow.ticks import UtcInstant


def show_page(jobs: Sequence[JobRecord], next_cursor: str | None, screen: Screen, *, nothing: str) -> None:
    """One page of the list; `nothing` is said of an empty one."""
    screen.document({"jobs": [job_document(each) for each in jobs], "next_cursor": next_cursor})
    if not jobs:
        screen.line(nothing)
        return
    screen.table(
        ["Job id", "State", "Handler", "Queue", "Attempts", "Progress", "Due or ended", "Error"],
        [
            (
                each.job_id,
                state_text(each),
                _handler(each),
                each.queue,
                _attempts(each),
                percent_text(each.progress_percent),
                instant_text(each.next_run if each.state is JobState.QUEUED else each.completed),
                each.error_code,
            )
            for each in jobs
        ],
        whole=["Job id", "Due or ended"],
    )
    if next_cursor is not None:
        screen.note(f"There are more: --cursor {next_cursor}")


def show_job(
    job: JobRecord, attempts: Sequence[AttemptRecord], screen: Screen, *, arguments: str | None
) -> None:
    """One job and its attempts, and with them its arguments as JSON text unless that is None."""
    document = job_document(job) | {"attempts": [_attempt_document(each) for each in attempts]}
    screen.document(document if arguments is None else document | {"arguments_json": arguments})
    rows = {
        "Job id": job.job_id,
        "State": state_text(job),
        "Handler": _handler(job),
        "Queue": job.queue,
        "Priority": job.priority,
        "Attempts": f"{_attempts(job)}, at most {job.max_attempts}",
        "Progress": _progress(job),
        "Submitted at": instant_text(job.created),
        "Not before": instant_text(job.initial_not_before),
        "Due at": instant_text(job.next_run) if job.state is JobState.QUEUED else None,
        "Ended at": instant_text(job.completed),
        "Result": job.result_reference,
        "Error code": job.error_code,
        "Error detail": job.error_detail,
        "Executor": job.owner,
        "Lease expires at": instant_text(job.lease_expires),
        "Correlation id": job.correlation_id,
    }
    screen.table(["", ""], as_rows(rows))
    if attempts:
        screen.line("")
        screen.table(
            ["Attempt", "State", "Started at", "Ended at", "Progress", "Result", "Error", "Executor"],
            [_attempt_row(each) for each in attempts],
            whole=["Started at", "Ended at"],
        )
    if arguments is not None:
        screen.line(f"\nArguments\n{arguments}")


def job_document(job: JobRecord) -> dict[str, Any]:
    """One job for programs; times are exact, in UTC."""
    return {
        "job_id": job.job_id,
        "state": job.state.value,
        "cancel_requested": job.cancel_requested,
        "handler": job.handler,
        "handler_version": job.handler_version,
        "queue": job.queue,
        "priority": job.priority,
        "attempts_begun": job.attempt_count,
        "attempts_left": job.attempts_left,
        "max_attempts": job.max_attempts,
        **_outcome_document(job),
        "created": job.created,
        "not_before": job.initial_not_before,
        "next_run": job.next_run,
        "completed": job.completed,
        "owner": job.owner,
        "lease_expires": job.lease_expires,
        "heartbeat": job.heartbeat,
        "correlation_id": job.correlation_id,
    }


def state_text(job: JobRecord) -> str:
    """The state, and whether someone has asked for its end."""
    asked = job.cancel_requested and job.state not in FINAL
    return f"{job.state.value}, to be cancelled" if asked else job.state.value


def attempt_text(job: JobRecord) -> str:
    """Which attempt runs, is waited for, or was the last, of how many."""
    most = job.attempt_count + job.attempts_left
    if job.state is JobState.QUEUED:
        return f"waits for attempt {job.attempt_count + 1} of {most}"
    return f"attempt {job.attempt_count} of {most}"


def percent_text(percent: int | None) -> str | None:
    """A percentage for people."""
    return None if percent is None else f"{percent} %"


def instant_text(instant: UtcInstant | None) -> str | None:
    """In UTC to the second."""
    return None if instant is None else moment_text(instant.to_datetime())


def error_text(ended: JobRecord | AttemptRecord) -> str | None:
    """Why it ended without success, with what is known of it."""
    if ended.error_code is None or ended.error_detail is None:
        return ended.error_code
    return f"{ended.error_code}: {ended.error_detail}"


def tell_missing(job_id: str, screen: Screen) -> ExitCode:
    """Say that the scope has no such job."""
    code = ExitCode.NOT_FOUND
    screen.error(
        code,
        f"there is no job {job_id!r} in this scope; `jobs list` shows those that are there. "
        "Ids and scopes are compared exactly",
    )
    return code


def _attempt_row(attempt: AttemptRecord) -> tuple[object, ...]:
    return (
        attempt.ordinal,
        attempt.state.value,
        instant_text(attempt.started),
        instant_text(attempt.ended),
        _progress(attempt),
        attempt.result_reference,
        error_text(attempt),
        attempt.owner,
    )


def _attempt_document(attempt: AttemptRecord) -> dict[str, Any]:
    return {
        "ordinal": attempt.ordinal,
        "state": attempt.state.value,
        "owner": attempt.owner,
        "started": attempt.started,
        "ended": attempt.ended,
        **_outcome_document(attempt),
    }


def _outcome_document(of: JobRecord | AttemptRecord) -> dict[str, Any]:
    names = ("progress_percent", "progress_message", "result_reference", "error_code", "error_detail")
    return {name: getattr(of, name) for name in names}


def _handler(job: JobRecord) -> str:
    return f"{job.handler} v{job.handler_version}"


def _attempts(job: JobRecord) -> str:
    return f"{job.attempt_count} begun, {job.attempts_left} left"


def _progress(of: JobRecord | AttemptRecord) -> str | None:
    parts = (percent_text(of.progress_percent), of.progress_message)
    return "  ".join(part for part in parts if part) or None
