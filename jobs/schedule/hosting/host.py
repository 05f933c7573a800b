"""The host of schedules: reconciles at its start, then turns slots into jobs as they come."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.schedule.declaring.catalog import EffectiveSchedule
from jobs.schedule.declaring.effective import declared_of, jitter_ticks_of, miss_rule_of
from jobs.schedule.declaring.run_policy import MisfirePolicy
from jobs.schedule.hosting.client import LEADER_LEASE
from jobs.schedule.hosting.options import ScheduleOptions
from jobs.schedule.occurrence.zone_data import zone_data_version
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.due import DueSchedule
from jobs.schedule.storing.firing import UNMOVED, Firing, FiringOutcome
from jobs.schedule.storing.slot_plan import SlotPlan, plan_slot
from jobs.schedule.storing.store import ScheduleStore
from uow.loop.chore import owner_name
from uow.loop.leadership import Leadership
from uow.loop.step import loop_step
from uow.loop.supervision import (
    LoopHealth,
    StopRequest,
    is_outage,
    log_failure,
    run_with_grace,
    supervise,
)
from uow.sql.lease import LeaseStore
from uow.telemetry import SlotOutcome, record_slots
from uow.ticks import UtcInstant

_PAGE: Final = 100
_SETTLED_AT_ONCE: Final = 500
_GRACE_SECONDS: Final = 10.0

_log: Final = logging.getLogger(__name__)


class ScheduleHost:
    """Fires the slots of the schedules it is given; any number of hosts share the work.

    schedules: by name, overrides applied. Every host may fire every slot: the change that takes one names
    what it saw, so each fires once. A named lease only keeps hosts from all trying at once; a slot that its
    holder leaves, because it died or declares the schedule otherwise, is fired by any other host a few
    seconds later. The database's clock decides what is due. committed: called after jobs were stored, to
    wake executors.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: ScheduleStore,
        schedules: Mapping[str, EffectiveSchedule],
        *,
        leases: LeaseStore,
        committed: Callable[[], None],
        options: ScheduleOptions | None = None,
        owner: str | None = None,
        own_clock: Callable[[], UtcInstant] = UtcInstant.now,
    ) -> None:
        self._engine = engine
        self._store = store
        self._schedules = schedules
        self._committed = committed
        self._options = options or ScheduleOptions()
        self._owner = owner or owner_name()
        self._own_clock = own_clock
        self._stop = StopRequest()
        self._leadership = Leadership(
            engine,
            leases,
            name=LEADER_LEASE,
            owner=self._owner,
            lease_seconds=2 * self._options.tick_seconds + self._options.take_over_seconds,
        )
        self._beat_at = 0.0
        self._reconciled = False
        self.health = LoopHealth(name="host of schedules")

    async def run(self) -> None:
        """Host until `stop`."""
        body = supervise(self._host, self.health, self._stop)
        await run_with_grace(body, self._stop, grace_seconds=_GRACE_SECONDS, name=self.health.name)
        try:
            await self._leadership.stand_down()
            await loop_step(self._engine, lambda c: self._store.leave(c, host=self._owner))
        except Exception as error:  # noqa: BLE001 - logged; others follow when the lease has run out
            log_failure(self.health.name, error)

    def stop(self) -> None:
        """Fire nothing more, and let others follow at once."""
        self._stop.request()

    async def tick(self) -> int:
        """Fire what is due now; how many slots were decided."""
        leading = await self._leadership.lead()
        late_seconds = 0.0 if leading else self._options.take_over_seconds
        # What waits goes first, so that the slot after it finds room to wait.
        decided = await self._release_waiting(late_seconds) + await self._fire_due(late_seconds)
        if leading:
            await self._settle_runs()
        return decided

    async def reconcile(self) -> None:
        """Bring the stored schedules in line with those of this host."""
        declared = [declared_of(each) for each in self._schedules.values()]
        done = await loop_step(self._engine, lambda c: self._store.reconcile(c, declared, host=self._owner))
        for name in done.removed:
            _log.warning("schedule %s is declared no longer; none of its slots fires", name)
        self._reconciled = True

    async def _host(self) -> None:
        if not self._reconciled:
            await self.reconcile()
        while not self._stop.requested:
            began = time.monotonic()
            decided = await self.tick()
            self.health.tick()
            # A schedule that has more than one slot to make up for has the next at once.
            pause = max(0.01, self._options.tick_seconds - (time.monotonic() - began))
            if not decided and await self._stop.sleep(pause):
                return

    async def _beat(self) -> None:
        """Tell that slots are looked after: only once they were."""
        if time.monotonic() < self._beat_at:
            return
        zone_data = zone_data_version()
        await loop_step(
            self._engine,
            lambda c: self._store.beat(c, host=self._owner, zone_data=zone_data, own=self._own_clock),
        )
        self._beat_at = time.monotonic() + self._options.beat_seconds

    def _is_ours(self, due: DueSchedule) -> bool:
        """Whether we declare it, and with the trigger that is stored."""
        schedule = self._schedules.get(due.name)
        if schedule is None or schedule.trigger is None:
            return False
        return schedule.trigger.describe() == due.trigger_text

    async def _fire_due(self, late_seconds: float) -> int:
        """Each schedule at most once, so that one with much to make up for holds up no other."""
        decided, after, tried = 0, None, set[str]()
        while not self._stop.requested:
            find = partial(self._store.find_due, late_seconds=late_seconds, after=after, limit=_PAGE)
            now, due = await loop_step(self._engine, find)
            ours = [each for each in due if each.name not in tried and self._is_ours(each)]
            tried.update(each.name for each in ours)
            # In a thread: making up for weeks of slots takes longer than the event loop may be held up.
            firings = await asyncio.to_thread(self._planned, ours, now) if ours else []
            decided += await self._fire_all(firings)
            await self._beat()
            if len(due) < _PAGE:
                break
            after = due[-1]
        return decided

    async def _release_waiting(self, late_seconds: float) -> int:
        decided, after = 0, None
        while not self._stop.requested:
            find = partial(self._store.find_waiting, late_seconds=late_seconds, after=after, limit=_PAGE)
            waiting = await loop_step(self._engine, find)
            decided += await self._fire_all(
                [
                    self._release(each, each.waiting)
                    for each in waiting
                    if each.name in self._schedules and each.waiting is not None
                ]
            )
            if len(waiting) < _PAGE:
                break
            after = waiting[-1]
        return decided

    async def _settle_runs(self) -> None:
        settle = partial(self._store.settle_runs, limit=_SETTLED_AT_ONCE)
        while await loop_step(self._engine, settle) == _SETTLED_AT_ONCE:
            pass

    async def _fire_all(self, firings: Sequence[Firing]) -> int:
        if not firings:
            return 0
        try:
            outcomes = await loop_step(self._engine, lambda c: self._store.fire(c, firings, host=self._owner))
        except Exception as error:
            if len(firings) == 1 or is_outage(error):
                raise
            return await self._fire_each(firings)
        for firing, outcome in zip(firings, outcomes, strict=True):
            _count(firing, outcome)
        if FiringOutcome.FIRED in outcomes:
            self._committed()
        return sum(outcome not in UNMOVED for outcome in outcomes)

    async def _fire_each(self, firings: Sequence[Firing]) -> int:
        """One after the other, since one of them cannot be stored: it holds up no other."""
        decided, failures = 0, list[Exception]()
        for firing in firings:
            try:
                decided += await self._fire_all([firing])
            except Exception as error:
                if is_outage(error):
                    raise
                log_failure(f"schedule {firing.due.name}", error)
                failures.append(error)
        if len(failures) == len(firings):
            raise failures[0]
        return decided

    def _planned(self, due: Sequence[DueSchedule], now: UtcInstant) -> list[Firing]:
        firings, failures = list[Firing](), list[Exception]()
        for each in due:
            schedule = self._schedules[each.name]
            if schedule.trigger is None:
                raise AssertionError("a schedule without a trigger is not ours")
            try:
                plan = plan_slot(schedule.trigger, each.slot, now, miss_rule_of(schedule))
            except Exception as error:  # noqa: BLE001 - logged; it holds up no other schedule
                log_failure(f"schedule {each.name}", error)
                failures.append(error)
            else:
                firings.append(self._firing(each, plan))
        if failures and not firings:
            raise failures[0]
        return firings

    def _release(self, due: DueSchedule, slot: UtcInstant) -> Firing:
        plan = SlotPlan(nominal=slot, cause=Cause.SCHEDULE, handled=slot, next_fire=None)
        return self._firing(due, plan, waiting=True)

    def _firing(self, due: DueSchedule, plan: SlotPlan, *, waiting: bool = False) -> Firing:
        declaration = self._schedules[due.name].declaration
        return Firing(
            due=due,
            plan=plan,
            overlap=declaration.overlap,
            queue=declaration.queue,
            max_attempts=declaration.max_attempts,
            priority=declaration.priority,
            jitter_ticks=jitter_ticks_of(due.name, round(declaration.jitter.total_seconds() * 1000)),
            waiting=waiting,
            in_turn=declaration.misfire is MisfirePolicy.CATCH_UP,
        )


def _count(firing: Firing, outcome: FiringOutcome) -> None:
    if outcome in UNMOVED:
        return
    if firing.plan.dropped is not None:
        count = firing.plan.dropped.count
        record_slots(schedule=firing.due.name, outcome=SlotOutcome.MISSED, count=count)
    if outcome is not FiringOutcome.DROPPED:
        record_slots(schedule=firing.due.name, outcome=SlotOutcome(outcome.value))
