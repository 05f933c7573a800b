"""What operators do to schedules: trigger, pause, resume; each with who and why."""

from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, select, update

from jobs.answer import RetryAnswer
from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.action import Action, ActionKind, record_actions
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.ground import SCOPE, ScheduleGround
from jobs.schedule.storing.reconcile import next_slot
from jobs.schedule.storing.run_identity import job_of
from jobs.schedule.storing.run_record import RunRecord, StagedRun, find_run, stage_runs
from uow.sql.clock import read_ticks


class PauseAnswer(StrEnum):
    """What a pause or its end did."""

    PAUSED = "paused"
    RESUMED = "resumed"
    UNCHANGED = "unchanged"
    """It was so before; nothing was changed, and nothing is recorded."""
    NOT_FOUND = "not_found"
    """There is no such schedule."""


def trigger_now(
    connection: Connection,
    ground: ScheduleGround,
    name: str,
    *,
    actor: str,
    reason: str,
    job_options: dict[str, Any],
) -> RunRecord | None:
    """See ScheduleStore.trigger."""
    if not _exists(connection, ground, name):
        return None
    now = read_ticks(connection, ground.clock)
    submission = job_of(
        name, job_id=f"{name}@manual-{uuid4()}", nominal=now, cause=Cause.MANUAL, **job_options
    )
    run = StagedRun(name=name, nominal=now, cause=Cause.MANUAL, submission=submission)
    run_id = stage_runs(connection, ground, [run])[0]
    record_actions(
        connection,
        ground,
        [Action(name=name, kind=ActionKind.TRIGGERED, actor=actor, reason=reason, detail=f"run {run_id}")],
    )
    return find_run(connection, ground, run_id)


def pause(
    connection: Connection, ground: ScheduleGround, name: str, *, actor: str, reason: str
) -> PauseAnswer:
    """See ScheduleStore.pause."""
    columns = ground.tables.schedule.c
    changed = connection.execute(
        update(ground.tables.schedule)
        .where(columns.name == name, columns.paused == 0)
        .values(
            paused=1,
            next_fire_ticks=None,
            waiting_nominal_ticks=None,
            fencing_number=columns.fencing_number + 1,
            changed_ticks=ground.clock.now_ticks(),
        )
    )
    if changed.rowcount:
        paused = Action(name=name, kind=ActionKind.PAUSED, actor=actor, reason=reason)
        record_actions(connection, ground, [paused])
        return PauseAnswer.PAUSED
    return PauseAnswer.UNCHANGED if _exists(connection, ground, name) else PauseAnswer.NOT_FOUND


def resume(
    connection: Connection,
    ground: ScheduleGround,
    name: str,
    *,
    trigger: Trigger | None,
    actor: str,
    reason: str,
) -> PauseAnswer:
    """See ScheduleStore.resume."""
    columns = ground.tables.schedule.c
    query = select(columns.last_nominal_ticks, columns.enabled, columns.declared, columns.paused)
    row = connection.execute(query.where(columns.name == name).with_for_update()).one_or_none()
    if row is None:
        return PauseAnswer.NOT_FOUND
    if not row.paused:
        return PauseAnswer.UNCHANGED
    in_force = row.enabled and row.declared
    slot = next_slot(trigger, read_ticks(connection, ground.clock), row.last_nominal_ticks)
    connection.execute(
        update(ground.tables.schedule)
        .where(columns.name == name, columns.paused == 1)
        .values(
            paused=0,
            next_fire_ticks=slot if in_force else None,
            fencing_number=columns.fencing_number + 1,
            changed_ticks=ground.clock.now_ticks(),
        )
    )
    resumed = Action(name=name, kind=ActionKind.RESUMED, actor=actor, reason=reason)
    record_actions(connection, ground, [resumed])
    return PauseAnswer.RESUMED


def retry_run(
    connection: Connection, ground: ScheduleGround, run_id: UUID, *, actor: str, reason: str
) -> RetryAnswer:
    """See ScheduleStore.retry."""
    run = find_run(connection, ground, run_id)
    if run is None:
        return RetryAnswer.NOT_FOUND
    answer = ground.jobs.retry(connection, SCOPE, run.job_id)
    if answer is RetryAnswer.QUEUED:
        columns = ground.tables.run.c
        connection.execute(
            update(ground.tables.run)
            .where(columns.run_id == run_id)
            .values(
                open_name=columns.name,
                staged_ticks=ground.clock.now_ticks(),
                outcome=None,
                ended_ticks=None,
                code=None,
                detail=None,
            )
        )
        detail = f"run {run_id}, slot {run.nominal}"
        record_actions(
            connection,
            ground,
            [Action(name=run.name, kind=ActionKind.RETRIED, actor=actor, reason=reason, detail=detail)],
        )
    return answer


def _exists(connection: Connection, ground: ScheduleGround, name: str) -> bool:
    columns = ground.tables.schedule.c
    return connection.scalar(select(columns.name).where(columns.name == name)) is not None
