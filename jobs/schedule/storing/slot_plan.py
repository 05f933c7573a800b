"""What becomes of a slot that is due, and of those that were missed before it: a decision without I/O."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, assert_never

from jobs.schedule.declaring.run_policy import MisfirePolicy
from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.cause import Cause
from uow.ticks import TICKS_PER_SECOND, UtcInstant

_COUNTED_SLOTS: Final = 1_000
_SHORTEST_WINDOW_TICKS: Final = TICKS_PER_SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Slots that are not run: how many from the first to the last.

    count: 1,000 stands for that or more, since slots are counted one by one, and a month may hold millions.
    """

    count: int
    first: UtcInstant
    last: UtcInstant

    def __str__(self) -> str:
        more = " or more" if self.count >= _COUNTED_SLOTS else ""
        slots = "1 slot" if self.count == 1 else f"{self.count}{more} slots"
        return f"{slots} missed, from {self.first} to {self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """What to do now. nominal: the slot to run, None for none. next_fire: None when there is none to come.

    handled: the newest slot that is decided by this plan.
    """

    nominal: UtcInstant | None
    cause: Cause
    handled: UtcInstant
    next_fire: UtcInstant | None
    dropped: Dropped | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRule:
    """How a schedule treats missed slots. grace: a slot this late is not missed yet.

    limit and age bound what `catch_up` makes up for: the newest slots, none older than age.
    """

    policy: MisfirePolicy
    grace: timedelta
    limit: int
    age: timedelta


def plan_slot(trigger: Trigger, due: UtcInstant, now: UtcInstant, rule: MissRule) -> SlotPlan:
    """The plan for a schedule whose stored slot `due` is not later than `now`."""
    if not _is_missed(due, now, rule):
        return _run(trigger, due, Cause.SCHEDULE)
    match rule.policy:
        case MisfirePolicy.LATEST:
            newest = trigger.latest_until(due, now) or due
            cause = Cause.MISFIRE if _is_missed(newest, now, rule) else Cause.SCHEDULE
            return _run(trigger, newest, cause, dropped=_between(trigger, due, newest))
        case MisfirePolicy.SKIP:
            return _skip(trigger, due, now, rule)
        case MisfirePolicy.CATCH_UP:
            first = first_kept(trigger, due, now, rule)
            if first is None:
                newest = trigger.latest_until(due, now) or due
                return _drop_all(trigger, due, newest)
            cause = Cause.MISFIRE if _is_missed(first, now, rule) else Cause.SCHEDULE
            return _run(trigger, first, cause, dropped=_between(trigger, due, first))
        case _:
            assert_never(rule.policy)


def first_kept(trigger: Trigger, due: UtcInstant, now: UtcInstant, rule: MissRule) -> UtcInstant | None:
    """The oldest slot from `due` to `now` that is among the newest `limit` and not older than `age`."""
    oldest = UtcInstant(max(due.ticks, now.ticks - _ticks(max(rule.age, rule.grace))))
    kept = _slots(trigger, due, oldest, now, rule.limit + 1)
    if len(kept) <= rule.limit:
        return kept[0] if kept else None
    # Too many: look back from now in windows that double, until one holds enough, then narrow it.
    enough = 2 * rule.limit
    too_late, start = now.ticks, now.ticks - _SHORTEST_WINDOW_TICKS
    too_early: int | None = None
    while True:
        kept = _slots(trigger, due, UtcInstant(max(oldest.ticks, start)), now, enough)
        if rule.limit <= len(kept) < enough:
            return kept[-rule.limit]
        if len(kept) >= enough:
            too_early = start
        else:
            too_late = start
        start = now.ticks - 2 * (now.ticks - start) if too_early is None else (too_early + too_late) // 2


def _slots(
    trigger: Trigger, due: UtcInstant, start: UtcInstant, until: UtcInstant, limit: int
) -> list[UtcInstant]:
    """The slots from `start` to `until`, both included, at most `limit`; `due` is one of them."""
    first = due if start <= due else trigger.latest_until(due, start) or due
    following: UtcInstant | None = first if first >= start else trigger.next_after(first)
    found: list[UtcInstant] = []
    while following is not None and following <= until and len(found) < limit:
        found.append(following)
        following = trigger.next_after(following)
    return found


def _run(trigger: Trigger, slot: UtcInstant, cause: Cause, *, dropped: Dropped | None = None) -> SlotPlan:
    return SlotPlan(
        nominal=slot, cause=cause, handled=slot, next_fire=trigger.next_after(slot), dropped=dropped
    )


def _skip(trigger: Trigger, due: UtcInstant, now: UtcInstant, rule: MissRule) -> SlotPlan:
    newest = trigger.latest_until(due, now) or due
    if _is_missed(newest, now, rule):
        return _drop_all(trigger, due, newest)
    return _run(trigger, newest, Cause.SCHEDULE, dropped=_between(trigger, due, newest))


def _drop_all(trigger: Trigger, due: UtcInstant, newest: UtcInstant) -> SlotPlan:
    following = trigger.next_after(newest)
    before = _between(trigger, due, newest)
    count = 1 if before is None else before.count + 1
    dropped = Dropped(count=min(count, _COUNTED_SLOTS), first=due, last=newest)
    return SlotPlan(nominal=None, cause=Cause.MISFIRE, handled=newest, next_fire=following, dropped=dropped)


def _between(trigger: Trigger, due: UtcInstant, kept: UtcInstant) -> Dropped | None:
    """The slots from `due` to before `kept`."""
    count, last, slot = 0, due, due
    while slot < kept and count < _COUNTED_SLOTS:
        count, last = count + 1, slot
        following = trigger.next_after(slot)
        if following is None:
            break
        slot = following
    if not count:
        return None
    if slot < kept:  # too many to be counted
        last = trigger.latest_until(due, UtcInstant(kept.ticks - 1)) or last
    return Dropped(count=count, first=due, last=last)


def _is_missed(slot: UtcInstant, now: UtcInstant, rule: MissRule) -> bool:
    return now.ticks - slot.ticks > _ticks(rule.grace)


def _ticks(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 10
