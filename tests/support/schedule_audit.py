"""Reads the tables of schedules when all is over, and says in sentences what does not agree in them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, RowMapping, Table, select

from jobs import JobState, JobTables
from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.action import ActionKind
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.ground import SCOPE_HASH
from jobs.schedule.storing.run_identity import run_id_of, slot_job_id
from jobs.schedule.storing.table import ScheduleTables
from tests.support.job_audit import StoredRows, audit_jobs, read_jobs
from uow.ticks import UtcInstant

_DROPPED = re.compile(
    r"(?P<count>\d+)(?P<more> or more)? slots? missed, from (?P<first>\S+) to (?P<last>\S+)"
)
_OVERLAPPED = re.compile(r"slot (?P<slot>\S+): ")


@dataclass(frozen=True)
class StoredSchedules:
    """All rows: schedules, runs and actions in their order, jobs with their attempts, effects."""

    schedules: Sequence[RowMapping]
    runs: Sequence[RowMapping]
    actions: Sequence[RowMapping]
    jobs: StoredRows
    effects: Sequence[RowMapping]


@dataclass
class _Decided:
    """What is recorded of the slots of one schedule: the runs, those left out, and those dropped."""

    runs: list[UtcInstant] = field(default_factory=list)
    overlapped: list[UtcInstant] = field(default_factory=list)
    dropped: list[tuple[int, bool, UtcInstant, UtcInstant]] = field(default_factory=list)


def read_schedules(
    connection: Connection, tables: ScheduleTables, job_tables: JobTables, effect: Table
) -> StoredSchedules:
    """Everything that is stored."""
    schedules, runs, actions, effects = (
        connection.execute(select(table).order_by(*table.primary_key)).mappings().all()
        for table in (tables.schedule, tables.run, tables.action, effect)
    )
    return StoredSchedules(schedules, runs, actions, read_jobs(connection, job_tables), effects)


def audit_schedules(
    stored: StoredSchedules,
    triggers: Mapping[str, Trigger],
    first: Mapping[str, UtcInstant],
    *,
    halted: bool,
) -> list[str]:
    """What is wrong, now that no host runs: each slot from the first on must be decided once, and told.

    A slot is run, left out because of an overlap, or dropped as missed; runs, jobs, effects, counts and the
    stored schedule must agree about it. halted: no schedule has a slot to come any more.
    """
    decided = _decided(stored)
    found = []
    for row in stored.schedules:
        name = row["name"]
        faults = _slot_faults(row, decided[name], triggers[name], first[name])
        faults = [*faults, *_count_faults(row, decided[name])]
        due = None if halted or row["last_nominal_ticks"] is None else row["last_nominal_ticks"]
        expected = None if halted else first[name] if due is None else triggers[name].next_after(due)
        if row["next_fire_ticks"] != expected:
            faults.append(f"its next slot is {row['next_fire_ticks']} instead of {expected}")
        found += [f"schedule {name}: {fault}" for fault in faults]
    return found + list(_run_faults(stored)) + audit_jobs(stored.jobs)


def _decided(stored: StoredSchedules) -> dict[str, _Decided]:
    decided: dict[str, _Decided] = defaultdict(_Decided)
    for run in stored.runs:
        if run["cause"] != Cause.MANUAL:
            decided[run["name"]].runs.append(run["nominal_ticks"])
    for action in stored.actions:
        record, detail = decided[action["name"]], action["detail"] or ""
        if action["kind"] == ActionKind.OVERLAPPED and (told := _OVERLAPPED.match(detail)):
            record.overlapped.append(UtcInstant.parse(told["slot"]))
        if action["kind"] == ActionKind.DROPPED and (told := _DROPPED.match(detail)):
            between = UtcInstant.parse(told["first"]), UtcInstant.parse(told["last"])
            record.dropped.append((int(told["count"]), told["more"] is not None, *between))
    return decided


def _slot_faults(row: RowMapping, decided: _Decided, trigger: Trigger, first: UtcInstant) -> Iterator[str]:
    slots = list(_slots(trigger, first, row["last_nominal_ticks"]))
    times = Counter([*decided.runs, *decided.overlapped])
    if row["waiting_nominal_ticks"] is not None:
        times[row["waiting_nominal_ticks"]] += 1
    for count, or_more, start, end in decided.dropped:
        within = [slot for slot in slots if start <= slot <= end]
        times.update(within)
        if count > len(within) or (count < len(within) and not or_more):
            yield f"{count} slots were dropped from {start} to {end}, where {len(within)} are"
    for slot in slots:
        if times[slot] != 1:
            yield f"slot {slot} was decided {times[slot]} times"
    for stranger in sorted(times.keys() - set(slots)):
        yield f"{stranger} was decided and is none of its slots"


def _slots(trigger: Trigger, first: UtcInstant, last: UtcInstant | None) -> Iterator[UtcInstant]:
    slot: UtcInstant | None = first
    while slot is not None and last is not None and slot <= last:
        yield slot
        slot = trigger.next_after(slot)


def _count_faults(row: RowMapping, decided: _Decided) -> Iterator[str]:
    for column, count in (
        ("fired_count", len(decided.runs)),
        ("misfired_count", sum(each[0] for each in decided.dropped)),
        ("overlapped_count", len(decided.overlapped)),
    ):
        if row[column] != count:
            yield f"{column} is {row[column]}, but {count} are recorded"


def _run_faults(stored: StoredSchedules) -> Iterator[str]:
    jobs = {job["job_id"]: job for job in stored.jobs.jobs if job["scope_hash"] == SCOPE_HASH}
    effects: dict[str, list[int]] = defaultdict(list)
    for row in stored.effects:
        effects[row["job_id"]].append(row["attempt"])
    for run in stored.runs:
        job_id = run["job_id"]
        faults = [*_record_faults(run), *_job_faults(run, jobs.pop(job_id, None), effects.pop(job_id, []))]
        yield from (f"run {job_id}: {fault}" for fault in faults)
    for job_id in sorted(jobs.keys() | effects.keys()):
        yield f"job {job_id}: has no run"


def _record_faults(run: RowMapping) -> Iterator[str]:
    if run["cause"] != Cause.MANUAL and run["job_id"] != slot_job_id(run["name"], run["nominal_ticks"]):
        yield f"is for slot {run['nominal_ticks']}"
    if run["run_id"] != run_id_of(run["job_id"]):
        yield "has the identity of another"
    if run["staged_ticks"] < run["nominal_ticks"]:
        yield f"was staged before its slot, at {run['staged_ticks']}"
    if run["open_name"] is not None or run["ended_ticks"] is None:
        yield "has not ended"


def _job_faults(run: RowMapping, job: RowMapping | None, effects: Sequence[int]) -> Iterator[str]:
    """Every attempt has its effect at most once, and success needs one."""
    if job is None:
        yield "has no job"
        return
    if run["outcome"] != job["state"]:
        yield f"is {run['outcome']}, but its job {job['state']}"
    if not set(effects) <= set(range(1, job["attempt_count"] + 1)) or len(set(effects)) < len(effects):
        yield f"has effects of the attempts {effects}, but {job['attempt_count']} were made"
    if job["state"] == JobState.SUCCEEDED and job["attempt_count"] not in effects:
        yield "has succeeded without an effect of its last attempt"
