"""Intervals count from the stored occurrence, exactly."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.schedule.errors import ScheduleError
from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.interval import IntervalSchedule
from jobs.schedule.occurrence.trigger import Trigger, upcoming
from uow.errors import FixTheCodeError
from uow.ticks import MAXIMUM_TICKS, UtcInstant

START = UtcInstant.parse("2026-01-01T00:00:00.0000007Z")
PERIODS = st.integers(1, 10**15)


def test_each_occurrence_is_one_period_after_the_one_before() -> None:
    schedule = IntervalSchedule.every(timedelta(minutes=90))
    assert [str(each) for each in upcoming(schedule, START, 3)] == [
        "2026-01-01T01:30:00.0000007Z",
        "2026-01-01T03:00:00.0000007Z",
        "2026-01-01T04:30:00.0000007Z",
    ]


@given(st.integers(0, MAXIMUM_TICKS), PERIODS)
def test_the_next_occurrence_is_later_or_none_at_the_end_of_time(ticks: int, period: int) -> None:
    following = IntervalSchedule(period).next_after(UtcInstant(ticks))
    if following is None:
        assert ticks + period > MAXIMUM_TICKS
    else:
        assert following.ticks - ticks == period


@given(PERIODS, st.integers(-3, 40), st.integers(0, 99))
def test_the_latest_of_a_stretch_is_a_whole_number_of_periods_on(
    period: int, periods: int, percent: int
) -> None:
    schedule = IntervalSchedule(period)
    until = UtcInstant(START.ticks + periods * period + period * percent // 100)
    stepped, at = None, schedule.next_after(START)
    while at is not None and at <= until:
        stepped, at = at, schedule.next_after(at)
    assert schedule.latest_until(START, until) == stepped


def test_the_last_period_that_fits_into_time_is_the_last() -> None:
    schedule = IntervalSchedule(10)
    assert schedule.next_after(UtcInstant(MAXIMUM_TICKS - 10)) == UtcInstant(MAXIMUM_TICKS)
    assert schedule.next_after(UtcInstant(MAXIMUM_TICKS - 9)) is None
    assert len(upcoming(schedule, UtcInstant(MAXIMUM_TICKS - 35), 1000)) == 3


@pytest.mark.parametrize("ticks", [0, -1, 1.5, True, None, "90", MAXIMUM_TICKS + 1])
def test_a_period_is_a_positive_whole_number_of_ticks(ticks: object) -> None:
    with pytest.raises(ScheduleError, match="interval: must be a whole number of ticks") as refused:
        IntervalSchedule(ticks)  # type: ignore[arg-type]
    assert isinstance(refused.value, FixTheCodeError)


@pytest.mark.parametrize("period", [timedelta(0), timedelta(seconds=-1), 90, None])
def test_a_period_is_a_positive_timedelta(period: object) -> None:
    with pytest.raises(ScheduleError, match="interval: must be a positive timedelta"):
        IntervalSchedule.every(period)  # type: ignore[arg-type]


def test_the_longest_timedelta_is_refused_by_rule() -> None:
    with pytest.raises(ScheduleError, match="interval"):
        IntervalSchedule.every(timedelta.max)


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (IntervalSchedule.every(timedelta(minutes=1, seconds=30)), "every 90 s"),
        (IntervalSchedule.every(timedelta(microseconds=1)), "every 0.000001 s"),
        (IntervalSchedule(1), "every 0.0000001 s"),
        (IntervalSchedule.every(timedelta(seconds=100)), "every 100 s"),
    ],
)
def test_an_interval_is_described_by_its_seconds(schedule: IntervalSchedule, text: str) -> None:
    assert schedule.describe() == text


@given(PERIODS, PERIODS)
def test_intervals_are_equal_exactly_when_their_descriptions_are(first: int, second: int) -> None:
    one, other = IntervalSchedule(first), IntervalSchedule(second)
    assert (one == other) == (one.describe() == other.describe()) == (first == second)


@pytest.mark.parametrize("count", [0, -1, 1001, True, 2.0])
def test_a_listing_has_one_to_a_thousand_occurrences(count: object) -> None:
    with pytest.raises(ValueError, match="count must be between 1 and 1000"):
        upcoming(IntervalSchedule(1), START, count)  # type: ignore[arg-type]


def test_cron_and_interval_are_both_triggers() -> None:
    triggers: list[Trigger] = [
        IntervalSchedule.every(timedelta(days=1)),
        CronSchedule.parse("0 0 * * *", after=START),
    ]
    assert [str(each.next_after(START))[:10] for each in triggers] == ["2026-01-02", "2026-01-02"]
    assert len({each.describe() for each in triggers}) == 2
