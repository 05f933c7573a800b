"""Which days and times a cron expression names, and what kind of value it is."""

import calendar
import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.cron_expression import CronExpression
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from jobs.schedule.occurrence.trigger import upcoming
from uow.ticks import MAXIMUM_TICKS, UtcInstant

START = UtcInstant.parse("2026-01-01T00:00:00Z")
BEFORE_START = UtcInstant(START.ticks - 1)


def _texts(schedule: CronSchedule, count: int, after: UtcInstant = BEFORE_START) -> list[str]:
    return [str(each)[:19] for each in upcoming(schedule, after, count)]


def _named(text: str, count: int) -> list[str]:
    return _texts(CronSchedule.parse(text, after=START), count)


def test_five_fields_begin_with_the_minute() -> None:
    assert _named("5 4 3 2 *", 2) == ["2026-02-03T04:05:00", "2027-02-03T04:05:00"]


def test_six_fields_begin_with_the_second() -> None:
    expected = [f"2026-01-01T00:{minute}:00" for minute in ("00", "15", "30", "45")]
    assert _named("0 0/15 * * * ?", 5) == [*expected, "2026-01-01T01:00:00"]
    assert _named("*/20 7 6 * * ?", 4) == [
        "2026-01-01T06:07:00",
        "2026-01-01T06:07:20",
        "2026-01-01T06:07:40",
        "2026-01-02T06:07:00",
    ]


def test_seven_fields_end_with_the_year() -> None:
    schedule = CronSchedule.parse("1 2 3 4 MAY ? 2027,2031-2032", after=START)
    assert _texts(schedule, 9) == ["2027-05-04T03:02:01", "2031-05-04T03:02:01", "2032-05-04T03:02:01"]
    assert _texts(CronSchedule.parse("0 0 0 1 1 ? 2099", after=START), 9) == ["2099-01-01T00:00:00"]


def _weekday(*days: int) -> Callable[[date], bool]:
    return lambda day: day.isoweekday() in days


def _last_day(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _nearest_weekday(to: int) -> Callable[[date], bool]:
    def is_nearest(day: date) -> bool:
        wanted = day.replace(day=min(to, _last_day(day)))
        in_month = [day.replace(day=number) for number in range(1, _last_day(day) + 1)]
        working = [each for each in in_month if each.isoweekday() < 6]
        return day == min(working, key=lambda each: abs(each - wanted))

    return is_nearest


DAYS: dict[str, Callable[[date], bool]] = {
    "0 0 * * 0": _weekday(7),
    "0 0 * * 7": _weekday(7),
    "0 0 * * SUN": _weekday(7),
    "0 0 ? * 1-5": _weekday(1, 2, 3, 4, 5),
    "0 0 * * fri-Mon": _weekday(5, 6, 7, 1),
    "0 0 * * 5-7": _weekday(5, 6, 7),
    "0 0 * * 0-7": lambda day: True,
    "0 0 * * */2": _weekday(7, 2, 4, 6),
    "0 0 0 ? * 1": _weekday(7),
    "0 0 0 ? * 2-6": _weekday(1, 2, 3, 4, 5),
    "0 0 0 * * 7": _weekday(6),
    "0 0 0 ? * 6-2": _weekday(5, 6, 7, 1),
    "0 0 0 ? * MON-FRI *": _weekday(1, 2, 3, 4, 5),
    "0 0 0 ? * SUN,3": _weekday(7, 2),
    "0 0 0 ? * 2/2": _weekday(1, 3, 5),
    "0 0 0 ? * 2#1": lambda day: day.isoweekday() == 1 and day.day <= 7,
    "0 0 0 ? * SAT#5": lambda day: day.isoweekday() == 6 and day.day > 28,
    "0 0 0 ? * MON#1,MON#3": lambda day: day.isoweekday() == 1 and (day.day - 1) // 7 in {0, 2},
    "0 0 0 ? * 6L": lambda day: day.isoweekday() == 5 and day.day > _last_day(day) - 7,
    "0 0 0 ? * 1L": lambda day: day.isoweekday() == 7 and day.day > _last_day(day) - 7,
    "0 0 0 ? * FRIL": lambda day: day.isoweekday() == 5 and day.day > _last_day(day) - 7,
    "0 0 * * 2#1": lambda day: day.isoweekday() == 2 and day.day <= 7,
    "0 0 * * 7#2": lambda day: day.isoweekday() == 7 and 7 < day.day <= 14,
    "0 0 * * L5": lambda day: day.isoweekday() == 5 and day.day > _last_day(day) - 7,
    "0 0 * * 0L,5L": lambda day: day.isoweekday() in {5, 7} and day.day > _last_day(day) - 7,
    "0 0 L * *": lambda day: day.day == _last_day(day),
    "0 0 0 15,L * ?": lambda day: day.day in {15, _last_day(day)},
    "0 0 0 L 2,4 ?": lambda day: day.month in {2, 4} and day.day == _last_day(day),
    "0 0 0 15W * ?": _nearest_weekday(15),
    "0 0 1W * *": _nearest_weekday(1),
    "0 0 31W * *": _nearest_weekday(31),
    "0 0 31 * *": lambda day: day.day == 31,
    "0 0 29 2 *": lambda day: (day.month, day.day) == (2, 29),
    "0 0 28-3 * *": lambda day: day.day >= 28 or day.day <= 3,
    "0 0 5-5 * *": lambda day: day.day == 5,
    "0 0 1-31/10 * *": lambda day: day.day in {1, 11, 21, 31},
    "0 0 13 * FRI": lambda day: day.day == 13 or day.isoweekday() == 5,
    "0 0 1-31 * 1": lambda day: True,
    "0 0 */1 * 1": _weekday(1),
    "0 0 15W * 2#1": lambda day: _nearest_weekday(15)(day) or (day.isoweekday() == 2 and day.day <= 7),
    "0 0 L 6 0L": lambda day: day.month == 6 and (day.day == 30 or (day.isoweekday() == 7 and day.day > 23)),
    "0 0 1 NOV-feb ?": lambda day: day.day == 1 and day.month in {11, 12, 1, 2},
}


@pytest.mark.parametrize("text", DAYS)
def test_the_days_named_are_those_that_the_calendar_tells(text: str) -> None:
    first = date(2026, 1, 1)
    every_day = [first + timedelta(days=number) for number in range(3 * 366)]
    expected = [f"{day}T00:00:00" for day in every_day if DAYS[text](day)]
    assert _named(text, min(len(expected), 120)) == expected[:120]


@given(st.data())
def test_lists_ranges_and_steps_name_what_counting_gives(data: st.DataObject) -> None:
    items, expected = [], set()
    for _ in range(data.draw(st.integers(1, 3))):
        low = data.draw(st.integers(0, 58))
        high = data.draw(st.integers(low, 59))
        step = data.draw(st.integers(1, 59))
        item, last, every = data.draw(
            st.sampled_from(
                [
                    (f"{low}", low, 1),
                    (f"{low}-{high}", high, 1),
                    (f"{low}-{high}/{step}", high, step),
                    (f"{low}/{step}", 59, step),
                ]
            )
        )
        items.append(item)
        expected |= set(range(low, last + 1, every))
    schedule = CronSchedule.parse(f"{','.join(items)} 0-23 * * *", after=START)
    found = upcoming(schedule, BEFORE_START, len(expected) + 1)
    assert [each.to_datetime().minute for each in found] == [*sorted(expected), min(expected)]


def test_a_range_that_runs_over_the_end_goes_on_at_the_beginning() -> None:
    hours = [int(each[11:13]) for each in _named("0 22-2 * * *", 6)]
    assert hours == [0, 1, 2, 22, 23, 0]


def test_the_rarest_day_comes_after_forty_years() -> None:
    schedule = CronSchedule.parse("0 0 0 ? 2 MON#5", after=START)
    assert _texts(schedule, 4) == [f"{year}-02-29T00:00:00" for year in (2044, 2072, 2112, 2140)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("text", ["* * * * * ?", "0 0 * * *", "0 0 29 2 *", "0 0 0 ? 2 MON#5", "0 12 1W 1 ?"])
def test_occurrences_end_with_the_year_9999(text: str, zone: str) -> None:
    schedule = CronSchedule.parse(text, time_zone=zone, after=START)
    assert schedule.next_after(UtcInstant(MAXIMUM_TICKS)) is None
    assert schedule.next_after(UtcInstant(MAXIMUM_TICKS - 1)) is None
    tail = upcoming(schedule, UtcInstant.parse("9999-12-31T23:59:57.5Z"), 9)
    assert len(tail) <= 2
    assert all("9999-12-31T23:59:58" <= str(each)[:19] <= "9999-12-31T23:59:59" for each in tail)


def test_of_two_day_fields_one_may_end_before_the_other() -> None:
    schedule = CronSchedule.parse("0 0 5 * FRI", after=START)
    late = UtcInstant.parse("9999-12-20T00:00:00Z")
    assert _texts(schedule, 9, late) == ["9999-12-24T00:00:00", "9999-12-31T00:00:00"]


def test_occurrences_begin_with_the_year_1970() -> None:
    schedule = CronSchedule.parse("0 0 * * *", time_zone="America/New_York", after=START)
    assert schedule.next_after(UtcInstant(0)) == UtcInstant.parse("1970-01-01T05:00:00Z")
    midnight = CronSchedule.parse("0 0 * * *", after=START)
    assert midnight.next_after(UtcInstant(0)) == UtcInstant.parse("1970-01-01T00:00:00Z")


def test_a_year_that_is_over_has_no_next_occurrence() -> None:
    schedule = CronSchedule.parse("0 0 0 1 1 ? 2026", after=START)
    assert schedule.next_after(BEFORE_START) == START
    assert schedule.next_after(START) is None


@pytest.mark.parametrize(("ticks", "expected"), [(-1, "00:00:00"), (0, "00:00:01"), (9_999_999, "00:00:01")])
def test_an_instant_between_two_seconds_is_followed_by_the_next_second(ticks: int, expected: str) -> None:
    schedule = CronSchedule.parse("* * * * * ?", after=START)
    assert str(schedule.next_after(UtcInstant(START.ticks + ticks))) == f"2026-01-01T{expected}.0000000Z"


@settings(max_examples=60)
@given(
    text=st.sampled_from(["*/7 * * * * ?", "30 2 * * *", "0 0 13 * FRI", "0 0 0 1 1 ? 2026"]),
    start=st.integers(0, 3 * 365 * 86_400),
    length=st.integers(0, 10_000),
)
def test_the_latest_of_a_stretch_is_where_stepping_through_it_comes_to(
    text: str, start: int, length: int
) -> None:
    schedule = CronSchedule.parse(text, time_zone="Europe/Berlin", after=START)
    previous = UtcInstant(START.ticks + start * 10_000_000)
    until = UtcInstant(previous.ticks + length * 60_000_003)
    stepped, at = None, schedule.next_after(previous)
    while at is not None and at <= until:
        stepped, at = at, schedule.next_after(at)
    assert schedule.latest_until(previous, until) == stepped


def test_the_latest_of_a_month_of_seconds_is_found_without_stepping_through_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule = CronSchedule.parse("* * * * * ?", after=START)
    steps, plain = [], CronExpression.next_wall

    def counted(expression: CronExpression, wall: datetime) -> datetime | None:
        steps.append(wall)
        return plain(expression, wall)

    monkeypatch.setattr(CronExpression, "next_wall", counted)
    until = UtcInstant.parse("2026-01-31T00:00:00.5Z")
    assert schedule.latest_until(START, until) == UtcInstant.parse("2026-01-31T00:00:00Z")
    assert len(steps) < 200


def test_equal_declarations_are_equal_values_whatever_their_blanks_and_case() -> None:
    first = CronSchedule.parse(" 0  2\t* * mon ", time_zone="Europe/Berlin", after=START)
    second = CronSchedule.parse("0 2 * * MON", time_zone="Europe/Berlin", after=START)
    assert first == second
    assert hash(first) == hash(second)
    assert first.describe() == second.describe()
    assert first.describe() == "cron '0 2 * * MON' in Europe/Berlin, gap run_after, fold first"


def test_whatever_changes_in_a_declaration_changes_its_value_and_its_description() -> None:
    declared = [
        CronSchedule.parse("0 2 * * *", after=START),
        CronSchedule.parse("0 3 * * *", after=START),
        CronSchedule.parse("0 0 2 * * *", after=START),
        CronSchedule.parse("0 2 * * *", time_zone="Europe/Berlin", after=START),
        CronSchedule.parse("0 2 * * *", gap=GapPolicy.SKIP, after=START),
        CronSchedule.parse("0 2 * * *", fold=FoldPolicy.BOTH, after=START),
    ]
    assert len(set(declared)) == len(declared)
    assert len({each.describe() for each in declared}) == len(declared)
    assert all(each.describe().isascii() for each in declared)


def test_a_schedule_cannot_be_changed_but_can_be_copied_and_sent() -> None:
    schedule = CronSchedule.parse("0 0 13 * FRI", time_zone="Europe/Berlin", after=START)
    with pytest.raises(FrozenInstanceError):
        schedule.fold = FoldPolicy.BOTH  # type: ignore[misc]
    for other in (copy.copy(schedule), copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule))):
        assert other == schedule
        assert _texts(other, 5) == _texts(schedule, 5)


@pytest.mark.parametrize("text", ["* * * * * ?", "*/13 * 13 * FRI", "0 0 * * MON#1"])
def test_asking_leaves_a_schedule_as_it_was_so_that_threads_can_share_it(text: str) -> None:
    schedule = CronSchedule.parse(text, after=START)
    before = pickle.dumps(schedule)
    assert _texts(schedule, 3)
    assert pickle.dumps(schedule) == before


def test_the_clock_of_the_machine_does_not_decide_when_something_is_due() -> None:
    schedule = CronSchedule.parse("0 0 1 1 *", after=START)
    stored = UtcInstant.from_datetime(datetime(1999, 6, 1, tzinfo=UTC))
    assert schedule.next_after(stored) == UtcInstant.parse("2000-01-01T00:00:00Z")
