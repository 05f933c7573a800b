"""What becomes of due and missed slots, beside a list of all of them written out."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.schedule.declaring.run_policy import MisfirePolicy
from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.interval import IntervalSchedule
from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.slot_plan import Dropped, MissRule, SlotPlan, plan_slot
from uow.ticks import UtcInstant

START = UtcInstant.from_datetime(datetime(2026, 1, 1, tzinfo=UTC))
MINUTELY = IntervalSchedule.every(timedelta(minutes=1))
GRACE = timedelta(seconds=60)


def at(seconds: float) -> UtcInstant:
    return UtcInstant(START.ticks + round(seconds * 10_000_000))


def rule(policy: MisfirePolicy, *, limit: int = 100, age: timedelta = timedelta(days=1)) -> MissRule:
    return MissRule(policy=policy, grace=GRACE, limit=limit, age=age)


def plan(policy: MisfirePolicy, now: float, **bounds: object) -> SlotPlan:
    return plan_slot(MINUTELY, START, at(now), rule(policy, **bounds))  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", MisfirePolicy)
@pytest.mark.parametrize("late", [0, 1, 60])
def test_a_slot_within_its_grace_runs_as_scheduled(policy: MisfirePolicy, late: float) -> None:
    assert plan(policy, late) == SlotPlan(
        nominal=START, cause=Cause.SCHEDULE, handled=START, next_fire=at(60), dropped=None
    )


def test_the_latest_of_the_missed_slots_runs_for_all() -> None:
    assert plan(MisfirePolicy.LATEST, 30.5 * 60) == SlotPlan(
        nominal=at(30 * 60),
        cause=Cause.SCHEDULE,
        handled=at(30 * 60),
        next_fire=at(31 * 60),
        dropped=Dropped(count=30, first=START, last=at(29 * 60)),
    )


def test_a_latest_slot_that_is_itself_missed_says_so() -> None:
    daily = IntervalSchedule.every(timedelta(days=1))
    made = plan_slot(daily, START, at(3600), rule(MisfirePolicy.LATEST))
    assert (made.nominal, made.cause, made.dropped) == (START, Cause.MISFIRE, None)


def test_skipping_runs_only_what_is_not_missed() -> None:
    made = plan(MisfirePolicy.SKIP, 30.5 * 60)
    assert (made.nominal, made.cause) == (at(30 * 60), Cause.SCHEDULE)
    assert made.dropped == Dropped(count=30, first=START, last=at(29 * 60))
    daily = IntervalSchedule.every(timedelta(days=1))
    nothing = plan_slot(daily, START, at(3600), rule(MisfirePolicy.SKIP))
    assert nothing == SlotPlan(
        nominal=None,
        cause=Cause.MISFIRE,
        handled=START,
        next_fire=at(86_400),
        dropped=Dropped(count=1, first=START, last=START),
    )


def test_catching_up_runs_one_slot_after_the_other() -> None:
    nominals, due = [], START
    while due <= at(300):
        made = plan_slot(MINUTELY, due, at(300), rule(MisfirePolicy.CATCH_UP))
        nominals.append((made.nominal, made.cause))
        assert made.next_fire is not None
        due = made.next_fire
    assert nominals == [
        (at(minute * 60), Cause.MISFIRE if minute < 4 else Cause.SCHEDULE) for minute in range(6)
    ]


def test_thirty_days_of_minutes_are_caught_up_within_number_and_age() -> None:
    now = 30 * 86_400 + 30
    made = plan(MisfirePolicy.CATCH_UP, now, limit=100)
    assert made.nominal == at(30 * 86_400 - 99 * 60)
    assert made.dropped == Dropped(count=1_000, first=START, last=at(30 * 86_400 - 100 * 60))
    old = plan(MisfirePolicy.CATCH_UP, now, limit=100_000, age=timedelta(hours=1))
    assert old.nominal == at(30 * 86_400 - 59 * 60)


def test_catching_up_drops_all_when_all_is_too_old() -> None:
    weekly = IntervalSchedule.every(timedelta(days=7))
    made = plan_slot(weekly, START, at(3 * 86_400), rule(MisfirePolicy.CATCH_UP))
    assert made.nominal is None
    assert made.next_fire == at(7 * 86_400)
    assert made.dropped == Dropped(count=1, first=START, last=START)


class Counted:
    """A trigger that counts how often it was asked."""

    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger
        self.steps = 0

    def next_after(self, previous: UtcInstant) -> UtcInstant | None:
        self.steps += 1
        return self.trigger.next_after(previous)

    def latest_until(self, previous: UtcInstant, until: UtcInstant) -> UtcInstant | None:
        return self.trigger.latest_until(previous, until)

    def describe(self) -> str:
        return self.trigger.describe()


@pytest.mark.parametrize("limit", [1, 100])
def test_catching_up_keeps_the_newest_slots_where_all_of_them_came_in_a_burst(limit: int) -> None:
    sundays = Counted(CronSchedule.parse("* * * ? * 1", after=START))  # each second of them
    sunday, monday = at(3 * 86_400), at(4 * 86_400 + 43_200)
    made = plan_slot(sundays, sunday, monday, rule(MisfirePolicy.CATCH_UP, limit=limit, age=timedelta(7)))
    assert made.nominal == at(4 * 86_400 - limit)
    assert made.dropped == Dropped(count=1_000, first=sunday, last=at(4 * 86_400 - limit - 1))
    assert sundays.steps < 6_000


def test_years_of_seconds_are_planned_in_a_few_thousand_steps() -> None:
    for policy in MisfirePolicy:
        trigger = Counted(IntervalSchedule.every(timedelta(seconds=1)))
        made = plan_slot(trigger, START, at(3 * 365 * 86_400), rule(policy, age=timedelta(days=10_000)))
        assert made.dropped is not None
        assert trigger.steps < 2_000


@pytest.mark.parametrize(
    ("count", "told"), [(1, "1 slot missed"), (2, "2 slots missed"), (1_000, "1000 or more slots missed")]
)
def test_what_is_dropped_is_told_in_words(count: int, told: str) -> None:
    dropped = Dropped(count=count, first=START, last=at(60))
    assert str(dropped) == f"{told}, from {START} to {at(60)}"


@given(
    period=st.integers(1, 5_000),
    now=st.integers(0, 400_000),
    policy=st.sampled_from(MisfirePolicy),
    limit=st.integers(1, 50),
    age=st.integers(1, 300_000),
    grace=st.integers(1, 5_000),
)
def test_every_slot_is_run_or_told_as_dropped_once_and_in_order(
    period: int, now: int, policy: MisfirePolicy, limit: int, age: int, grace: int
) -> None:
    trigger = IntervalSchedule.every(timedelta(seconds=period))
    bounds = MissRule(policy=policy, grace=timedelta(seconds=grace), limit=limit, age=timedelta(seconds=age))
    slots = [at(second) for second in range(0, now + 1, period)]
    told: list[UtcInstant] = []
    ran: list[UtcInstant] = []
    due: UtcInstant | None = START
    while due is not None and due <= at(now):
        made = plan_slot(trigger, due, at(now), bounds)
        if made.dropped is not None and made.dropped.count < 1_000:
            gone = [slot for slot in slots if made.dropped.first <= slot <= made.dropped.last]
            assert len(gone) == made.dropped.count
            told += gone
        elif made.dropped is not None:
            told += [slot for slot in slots if made.dropped.first <= slot <= made.dropped.last]
        if made.nominal is not None:
            ran.append(made.nominal)
            told.append(made.nominal)
        assert made.next_fire is None or made.next_fire > made.handled >= due
        due = made.next_fire
    assert told == slots
    timely = [slot for slot in slots if at(now).ticks - slot.ticks <= grace * 10_000_000]
    assert set(timely[-1:]) <= set(ran)
    missed = [slot for slot in ran if slot not in timely]
    match policy:
        case MisfirePolicy.SKIP:
            assert missed == []
        case MisfirePolicy.LATEST:
            assert len(missed) <= 1
        case MisfirePolicy.CATCH_UP:
            assert all(at(now).ticks - slot.ticks <= age * 10_000_000 for slot in missed)
            assert len(ran) <= max(limit, len(timely))
