"""The store of schedules: slots become jobs by conditional changes that name the number they saw."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from jobs.answer import RetryAnswer
from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.action import RecordedAction, find_actions
from jobs.schedule.storing.control import PauseAnswer, pause, resume, retry_run, trigger_now
from jobs.schedule.storing.due import DueSchedule, find_due, find_waiting
from jobs.schedule.storing.firing import Firing, FiringOutcome, fire
from jobs.schedule.storing.ground import ScheduleGround
from jobs.schedule.storing.host_record import HostRecord, beat, find_hosts, leave
from jobs.schedule.storing.reconcile import DeclaredSchedule, Reconciled, add_schedule, reconcile
from jobs.schedule.storing.run_record import (
    RunRecord,
    find_run,
    find_runs,
    record_begun,
    record_ended,
    settle_runs,
)
from jobs.schedule.storing.state import ScheduleState, find_states
from jobs.schedule.storing.table import ScheduleTables
from jobs.store import JobStore
from uow.sql.clock import read_ticks
from uow.ticks import UtcInstant


class ScheduleStore:
    """The verbs on stored schedules. Each takes an open connection and leaves its transaction to the caller.

    Run a verb in a short transaction of its own. Each takes a constant number of statements for any number
    of schedules. The clock is that of `jobs`, the database's.
    """

    def __init__(self, tables: ScheduleTables, jobs: JobStore) -> None:
        self._ground = ScheduleGround(tables, jobs)

    def reconcile(
        self, connection: Connection, declared: Sequence[DeclaredSchedule], *, host: str
    ) -> Reconciled:
        """Store what is new, change what differs, and put what is not declared any more out of force.

        A changed trigger, or one put in force, gets its next slot after now and after all that were decided
        before; what is paused stays so. Whoever does it second changes nothing.
        """
        return reconcile(connection, self._ground, declared, host=host)

    def add(self, connection: Connection, declared: DeclaredSchedule, *, actor: str) -> None:
        """Store one that is not stored yet, as a host does when it starts."""
        add_schedule(connection, self._ground, declared, actor=actor)

    def find_due(
        self,
        connection: Connection,
        *,
        late_seconds: float = 0.0,
        after: DueSchedule | None = None,
        limit: int = 100,
    ) -> tuple[UtcInstant, Sequence[DueSchedule]]:
        """The present by the database, and schedules whose slot came that long ago, the longest due first.

        `after` the last one of a page leads to the next.
        """
        return find_due(connection, self._ground, late_seconds=late_seconds, after=after, limit=limit)

    def find_waiting(
        self,
        connection: Connection,
        *,
        late_seconds: float = 0.0,
        after: DueSchedule | None = None,
        limit: int = 100,
    ) -> Sequence[DueSchedule]:
        """Schedules of which a slot waits for the end of the run before it, the oldest slot first.

        late_seconds and after: as for `find_due`.
        """
        return find_waiting(connection, self._ground, late_seconds=late_seconds, after=after, limit=limit)

    def fire(
        self, connection: Connection, firings: Sequence[Firing], *, host: str
    ) -> Sequence[FiringOutcome]:
        """Turn slots into jobs; what became of each, in their order. No schedule twice in one call.

        One transaction: the schedule moves on, its job is stored, and so is what was left out. LOST where
        the number that a firing names is not the stored one any more, so each slot fires once however many
        hosts try. HELD where a slot has its turn only after the run before it, or after one that waits.
        """
        return fire(connection, self._ground, firings, host=host)

    def trigger(
        self, connection: Connection, name: str, *, actor: str, reason: str, job_options: Mapping[str, Any]
    ) -> RunRecord | None:
        """Run it now, whatever its state and its slots; the run, or None when there is no such schedule.

        job_options: queue, max_attempts and priority of the job.
        """
        return trigger_now(
            connection, self._ground, name, actor=actor, reason=reason, job_options=dict(job_options)
        )

    def pause(self, connection: Connection, name: str, *, actor: str, reason: str) -> PauseAnswer:
        """Let no slot of it fire until it is resumed; a slot that waits is given up. Running jobs go on."""
        return pause(connection, self._ground, name, actor=actor, reason=reason)

    def resume(
        self, connection: Connection, name: str, *, trigger: Trigger | None, actor: str, reason: str
    ) -> PauseAnswer:
        """Go on with the next slot of `trigger` after now: none that came meanwhile fires."""
        return resume(connection, self._ground, name, trigger=trigger, actor=actor, reason=reason)

    def retry(self, connection: Connection, run_id: UUID, *, actor: str, reason: str) -> RetryAnswer:
        """Queue the job of a failed, cancelled or interrupted run again, with its slot and its identity."""
        return retry_run(connection, self._ground, run_id, actor=actor, reason=reason)

    def record_begun(self, connection: Connection, run_id: UUID, *, attempt: int) -> None:
        """An attempt at a run has begun."""
        record_begun(connection, self._ground, run_id, attempt)

    def record_ended(
        self,
        connection: Connection,
        run_id: UUID,
        *,
        attempt: int,
        code: str | None = None,
        detail: str | None = None,
    ) -> None:
        """An attempt at a run has ended, with a code when it failed; nothing once a later one has begun."""
        record_ended(connection, self._ground, run_id, attempt=attempt, code=code, detail=detail)

    def settle_runs(self, connection: Connection, *, limit: int = 500) -> int:
        """Give the runs whose jobs have ended the outcome of these; how many. Again while it is `limit`."""
        return settle_runs(connection, self._ground, limit=limit)

    def runs(self, connection: Connection, name: str, *, limit: int = 50) -> Sequence[RunRecord]:
        """The runs of a schedule, the latest first."""
        return find_runs(connection, self._ground, name, limit=limit)

    def find_run(self, connection: Connection, run_id: UUID) -> RunRecord | None:
        """One run, or None."""
        return find_run(connection, self._ground, run_id)

    def actions(
        self, connection: Connection, name: str | None = None, *, limit: int = 50
    ) -> Sequence[RecordedAction]:
        """What was done to a schedule, or to all of them, the latest first."""
        return find_actions(connection, self._ground, name, limit=limit)

    def states(self, connection: Connection) -> Sequence[ScheduleState]:
        """All stored schedules, each with its last run, by name."""
        return find_states(connection, self._ground)

    def moment(self, connection: Connection) -> UtcInstant:
        """The present by the clock that decides what is due."""
        return read_ticks(connection, self._ground.clock)

    def beat(
        self, connection: Connection, *, host: str, zone_data: str, own: Callable[[], UtcInstant]
    ) -> None:
        """A host is alive; `own` tells the present by its own clock."""
        beat(connection, self._ground, host=host, zone_data=zone_data, own=own)

    def leave(self, connection: Connection, *, host: str) -> None:
        """A host has stopped."""
        leave(connection, self._ground, host=host)

    def hosts(self, connection: Connection) -> Sequence[HostRecord]:
        """The hosts that ticked within the last day, the latest first."""
        return find_hosts(connection, self._ground)
