"""Reads the tables of jobs when all is over, and says in sentences what does not agree in them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, select

from jobs import JobState, JobTables
from jobs.execution.failure import SHUTDOWN
from jobs.state import FINAL

_PLANNED = frozenset({SHUTDOWN})
"""Error codes of attempts that used none up."""


@dataclass(frozen=True)
class StoredRows:
    """All rows of both tables, attempts in their order."""

    jobs: Sequence[RowMapping]
    attempts: Sequence[RowMapping]


def read_jobs(connection: Connection, tables: JobTables) -> StoredRows:
    """Everything that is stored."""
    jobs, attempts = (
        connection.execute(select(table).order_by(*table.primary_key)).mappings().all()
        for table in (tables.job, tables.attempt)
    )
    return StoredRows(jobs, attempts)


def audit_jobs(stored: StoredRows, *, at_rest: bool = True) -> list[str]:
    """What is wrong: each job must be final or runnable, each attempt ended or leased, and both agree.

    at_rest: no executor runs, so that nothing may be running any more.
    """
    attempts: dict[tuple[bytes, str], list[RowMapping]] = defaultdict(list)
    for row in stored.attempts:
        attempts[row["scope_hash"], row["job_id"]].append(row)
    found = []
    for job in stored.jobs:
        own = attempts.pop((job["scope_hash"], job["job_id"]), [])
        found += [f"job {job['job_id']}: {fault}" for fault in _faults(job, own, at_rest=at_rest)]
    return found + [f"job {job_id}: is gone, its attempts are not" for _, job_id in attempts]


def audit_effects(
    stored: StoredRows, handlers: Collection[str], effects: Mapping[str, Counter[str]]
) -> list[str]:
    """What is wrong with effects that the success of jobs of these handlers promises exactly once.

    effects: of each kind how many there are for which job.
    """
    states = {job["job_id"]: job["state"] for job in stored.jobs if job["handler"] in handlers}
    wrong = []
    for kind, counts in effects.items():
        for job_id in states.keys() | counts.keys():
            state = states.get(job_id)
            expected = int(state == JobState.SUCCEEDED.value)
            if counts[job_id] != expected:
                wrong.append(f"job {job_id}: is {state} with {counts[job_id]} {kind} instead of {expected}")
    return wrong


def _faults(job: RowMapping, attempts: Sequence[RowMapping], *, at_rest: bool) -> Iterator[str]:
    state = job["state"]
    yield from _count_faults(job, attempts)
    yield from _attempt_faults(job, attempts)
    match state:
        case JobState.QUEUED:
            yield from _queued_faults(job)
        case JobState.RUNNING if at_rest:
            yield "is running although no executor is"
        case JobState.RUNNING:
            yield from _running_faults(job, attempts)
        case _ if state in FINAL:
            yield from _final_faults(job, attempts)
        case _:
            yield f"is in no state that there is, but {state!r}"


def _count_faults(job: RowMapping, attempts: Sequence[RowMapping]) -> Iterator[str]:
    if [each["ordinal"] for each in attempts] != list(range(1, job["attempt_count"] + 1)):
        ordinals = [each["ordinal"] for each in attempts]
        yield f"has begun {job['attempt_count']} attempts, but has the rows {ordinals}"
    planned = sum(each["error_code"] in _PLANNED for each in attempts)
    if job["forgiven_count"] != planned:
        yield f"has {job['forgiven_count']} attempts that used none up, but {planned} were stopped as planned"
    if job["attempt_count"] - job["forgiven_count"] > job["max_attempts"]:
        yield f"has used up more than its {job['max_attempts']} attempts"
    if attempts and attempts[-1]["token"] != job["attempt_token"]:
        yield "carries another token than its last attempt"
    if len({each["token"] for each in attempts}) < len(attempts):
        yield "has two attempts with one token"


def _attempt_faults(job: RowMapping, attempts: Sequence[RowMapping]) -> Iterator[str]:
    for each in attempts:
        running = each["state"] == JobState.RUNNING.value
        if running and (job["state"] != JobState.RUNNING.value or each is not attempts[-1]):
            yield f"attempt {each['ordinal']} runs, and nobody will end it"
        if running != (each["ended_ticks"] is None):
            yield f"attempt {each['ordinal']} is {each['state']} and has ended at {each['ended_ticks']}"
        if each["state"] == JobState.SUCCEEDED.value and each is not attempts[-1]:
            yield f"attempt {each['ordinal']} has succeeded and was followed by another"


def _queued_faults(job: RowMapping) -> Iterator[str]:
    if job["queued_in"] != job["queue"]:
        yield f"is queued in {job['queued_in']} instead of {job['queue']}, where nobody finds it"
    if job["attempt_count"] - job["forgiven_count"] >= job["max_attempts"]:
        yield "is queued without an attempt left"
    if job["cancel_requested"]:
        yield "is queued although its cancellation was asked for"
    yield from _set_faults(job, "completed_ticks", "lease_expires_ticks", "owner", "result_reference")


def _running_faults(job: RowMapping, attempts: Sequence[RowMapping]) -> Iterator[str]:
    if job["lease_expires_ticks"] is None:
        yield "runs without a lease, so that nobody recovers it"
    if not attempts or attempts[-1]["state"] != JobState.RUNNING.value:
        yield "runs without a running attempt"
    yield from _set_faults(job, "completed_ticks", "queued_in")


def _final_faults(job: RowMapping, attempts: Sequence[RowMapping]) -> Iterator[str]:
    if job["completed_ticks"] is None:
        yield f"is {job['state']} without the time of its end"
    last = attempts[-1]["state"] if attempts else None
    if last != job["state"] and job["state"] != JobState.CANCELLED.value:
        yield f"is {job['state']}, but its last attempt {last}"
    if job["state"] != JobState.SUCCEEDED.value:
        yield from _set_faults(job, "result_reference")
    elif attempts and attempts[-1]["result_reference"] != job["result_reference"]:
        yield "has another result than its last attempt"
    if job["state"] in {JobState.FAILED.value, JobState.INTERRUPTED.value} and not job["error_code"]:
        yield f"is {job['state']} without a reason"
    yield from _set_faults(job, "queued_in", "lease_expires_ticks", "owner")


def _set_faults(job: RowMapping, *columns: str) -> Iterator[str]:
    for column in columns:
        if job[column] is not None:
            yield f"is {job['state']} with {column} {job[column]}"
