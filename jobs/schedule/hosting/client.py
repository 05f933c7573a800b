"""Schedules for operators: look, trigger, pause, resume, retry; each call a step of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.answer import RetryAnswer
from jobs.schedule.declaring.catalog import EffectiveSchedule
from jobs.schedule.declaring.effective import declared_of
from jobs.schedule.errors import UnknownScheduleError
from jobs.schedule.hosting.report import ScheduleReport, make_report
from jobs.schedule.occurrence.zone_data import zone_data_version
from jobs.schedule.storing.action import RecordedAction
from jobs.schedule.storing.control import PauseAnswer
from jobs.schedule.storing.run_record import RunRecord
from jobs.schedule.storing.store import ScheduleStore
from jobs.table import OWNER_UNITS, TEXT_UNITS
from uow.sql.lease import LeaseStore
from uow.sql.step import run_step
from uow.suggestion import did_you_mean
from uow.text import check_text

LEADER_LEASE = "schedules"
"""The named lease of the host that leads."""


class Schedules:
    """What operators do with schedules; all of it is recorded with who did it and why.

    committed: told after a run was stored, to wake executors. `actor` is who asks, at most 200 UTF-16 units;
    `reason` is why, not blank, at most 1000. Both raise TextError. A name that neither this App declares nor
    the database holds raises UnknownScheduleError.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: ScheduleStore,
        schedules: Mapping[str, EffectiveSchedule],
        *,
        leases: LeaseStore,
        committed: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._store = store
        self._schedules = schedules
        self._leases = leases
        self._committed = committed

    @property
    def declared(self) -> Mapping[str, EffectiveSchedule]:
        """What this App declares, by name, overrides applied."""
        return self._schedules

    async def trigger(self, name: str, *, actor: str, reason: str) -> RunRecord:
        """Run it now, once; disabled and paused schedules too. Returns the run, which is stored."""
        schedule = self._known(name)
        declaration = schedule.declaration
        options: dict[str, Any] = {
            "queue": declaration.queue,
            "max_attempts": declaration.max_attempts,
            "priority": declaration.priority,
        }
        asked = _asked(actor, reason)

        def step(connection: Connection) -> RunRecord | None:
            # When no host has started yet its job waits for an executor.
            self._store.add(connection, declared_of(schedule), actor=actor)
            return self._store.trigger(connection, name, job_options=options, **asked)

        run = await run_step(self._engine, step)
        if run is None:
            raise AssertionError("a schedule that was just stored is not there")
        self._committed()
        return run

    async def pause(self, name: str, *, actor: str, reason: str) -> PauseAnswer:
        """Let no slot of it fire until `resume`; a run that has begun goes on.

        It may be paused before any host has started; one that is declared no longer, too.
        """
        asked, schedule = _asked(actor, reason), self._schedules.get(name)

        def step(connection: Connection) -> PauseAnswer:
            if schedule is not None:
                self._store.add(connection, declared_of(schedule), actor=actor)
            return self._store.pause(connection, name, **asked)

        return self._found(name, await run_step(self._engine, step))

    async def resume(self, name: str, *, actor: str, reason: str) -> PauseAnswer:
        """Go on with the next slot after now; no slot that came meanwhile fires."""
        asked, trigger = _asked(actor, reason), self._known(name).trigger
        answer = await run_step(self._engine, lambda c: self._store.resume(c, name, trigger=trigger, **asked))
        return self._found(name, answer)

    async def retry(self, run_id: UUID, *, actor: str, reason: str) -> RetryAnswer:
        """Queue the job of a run that did not succeed again: the same slot, the same identity."""
        asked = _asked(actor, reason)
        answer = await run_step(self._engine, lambda c: self._store.retry(c, run_id, **asked))
        if answer is RetryAnswer.QUEUED:
            self._committed()
        return answer

    async def runs(self, name: str, *, limit: int = 50) -> Sequence[RunRecord]:
        """The runs of a schedule, the latest first."""
        return await run_step(self._engine, lambda c: self._store.runs(c, name, limit=limit))

    async def actions(self, name: str | None = None, *, limit: int = 50) -> Sequence[RecordedAction]:
        """What was done to a schedule, or to all, the latest first."""
        return await run_step(self._engine, lambda c: self._store.actions(c, name, limit=limit))

    async def report(self) -> ScheduleReport:
        """What is declared, stored and running, and all that does not fit; five statements."""

        def read(connection: Connection) -> ScheduleReport:
            return make_report(
                moment=self._store.moment(connection),
                schedules=self._schedules,
                states=self._store.states(connection),
                hosts=self._store.hosts(connection),
                leader=self._leases.holder(connection, LEADER_LEASE),
                zone_data=zone_data_version(),
            )

        return await run_step(self._engine, read)

    def _known(self, name: str) -> EffectiveSchedule:
        schedule = self._schedules.get(name)
        if schedule is None:
            hint = did_you_mean(name, self._schedules)
            raise UnknownScheduleError(f"this App declares no schedule {name!r}{hint}")
        return schedule

    def _found(self, name: str, answer: PauseAnswer) -> PauseAnswer:
        if answer is PauseAnswer.NOT_FOUND:
            hint = did_you_mean(name, self._schedules)
            raise UnknownScheduleError(f"there is no schedule {name!r}{hint}")
        return answer


def _asked(actor: str, reason: str) -> dict[str, str]:
    return {
        "actor": check_text("actor", actor, units=OWNER_UNITS, blank=False),
        "reason": check_text("reason", reason, units=TEXT_UNITS, blank=False),
    }
