"""What becomes of cron where the clock of a zone is put forward or back, or leaves out a day."""

from collections.abc import Callable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from jobs.schedule.occurrence.trigger import upcoming
from tests.support.wall_walk import CHANGES, Window, changes, due, utc
from uow.ticks import TICKS_PER_SECOND, UtcInstant

MONROVIA = Window("Africa/Monrovia", utc("1972-01-07T00:44:30"), timedelta(hours=2), timedelta(seconds=1))
BERLIN = Window("Europe/Berlin", utc("2026-10-25T01:00"), timedelta(hours=2), timedelta(seconds=1))
LONG_AGO = UtcInstant(0)

FIXED: dict[str, Callable[[datetime], bool]] = {
    "30 2 * * *": lambda wall: (wall.hour, wall.minute) == (2, 30),
    "15 0 * * *": lambda wall: (wall.hour, wall.minute) == (0, 15),
    "0 12 * * *": lambda wall: (wall.hour, wall.minute) == (12, 0),
    "0,20,45 0-3,23 * * *": lambda wall: wall.minute in {0, 20, 45} and wall.hour in {0, 1, 2, 3, 23},
    "0-59/15 0-23 * * *": lambda wall: wall.minute % 15 == 0,
    "10 1 30 * *": lambda wall: (wall.day, wall.hour, wall.minute) == (30, 1, 10),
    "30 0-23 * * SUN": lambda wall: wall.minute == 30 and wall.isoweekday() == 7,
}
REAL_TIME: dict[str, Callable[[datetime], bool]] = {
    "0 * * * *": lambda wall: wall.minute == 0,
    "*/20 * * * *": lambda wall: wall.minute % 20 == 0,
    "*/10 2 * * *": lambda wall: wall.hour == 2 and wall.minute % 10 == 0,
    "15 */2 * * *": lambda wall: wall.hour % 2 == 0 and wall.minute == 15,
    "0 45 * * * ?": lambda wall: wall.minute == 45,
}
ANYWHERE = st.integers(-30 * 3600 * TICKS_PER_SECOND, 30 * 3600 * TICKS_PER_SECOND)
STARTS = ANYWHERE | st.integers(-2 * 3600, 2 * 3600).map(lambda seconds: seconds * TICKS_PER_SECOND)
"""From the change of the clock on, or back: in ticks anywhere in the window, in seconds close by."""

POLICIES = [(gap, fold) for gap in GapPolicy for fold in FoldPolicy]
OPPOSITE = [(GapPolicy.RUN_AFTER, FoldPolicy.FIRST), (GapPolicy.SKIP, FoldPolicy.BOTH)]


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T03:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T03:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        (
            "0 0 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00",
            ["2026-03-28T23:00", "2026-03-29T22:00", "2026-03-30T22:00"],
        ),
        (
            "0 * * * *",
            "Europe/Berlin",
            "2026-10-25T01:00",
            ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00", "2026-10-25T03:00"],
        ),
        ("30 1 * * *", "America/New_York", "2026-10-31T02:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T03:00", ["2026-10-03T15:30", "2026-10-04T15:15"]),
    ],
)
def test_the_expected_instants_come_out(text: str, zone: str, after: str, expected: list[str]) -> None:
    start = UtcInstant.from_datetime(datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)))
    schedule = CronSchedule.parse(text, time_zone=zone, after=LONG_AGO)
    assert upcoming(schedule, start, len(expected)) == tuple(
        UtcInstant.parse(f"{each}:00Z") for each in expected
    )


def test_a_time_left_out_can_be_skipped_and_one_shown_twice_can_run_twice() -> None:
    schedule = CronSchedule.parse(
        "30 2 * * *", time_zone="Europe/Berlin", gap=GapPolicy.SKIP, fold=FoldPolicy.BOTH, after=LONG_AGO
    )
    spring = upcoming(schedule, UtcInstant.parse("2026-03-28T12:00:00Z"), 1)
    autumn = upcoming(schedule, UtcInstant.parse("2026-10-24T12:00:00Z"), 3)
    assert [str(each)[:16] for each in spring] == ["2026-03-30T00:30"]
    assert [str(each)[:16] for each in autumn] == ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-26T01:30"]


def test_several_times_left_out_run_once_and_join_the_one_that_is_due_at_the_change() -> None:
    schedule = CronSchedule.parse("0,20,40 2,3 * * *", time_zone="Europe/Berlin", after=LONG_AGO)
    found = upcoming(schedule, UtcInstant.parse("2026-03-28T12:00:00Z"), 4)
    assert [str(each)[11:16] for each in found] == ["01:00", "01:20", "01:40", "00:00"]


@pytest.mark.parametrize(
    ("fold", "expected"), [(FoldPolicy.FIRST, "2026-10-26T01:00"), (FoldPolicy.BOTH, "2026-10-25T01:30")]
)
def test_what_was_stored_while_the_clock_shows_an_hour_again_goes_on_from_there(
    fold: FoldPolicy, expected: str
) -> None:
    schedule = CronSchedule.parse("0,30 2 * * *", time_zone="Europe/Berlin", fold=fold, after=LONG_AGO)
    second_time = UtcInstant.parse("2026-10-25T01:10:00Z")
    assert str(schedule.next_after(second_time))[:16] == expected


def test_the_windows_of_these_tests_each_hold_a_change_of_the_clock() -> None:
    assert [str(window) for window in (*CHANGES, MONROVIA, BERLIN) if len(changes(window)) != 1] == []


@pytest.mark.parametrize("window", CHANGES, ids=str)
def test_occurrences_around_a_change_are_those_that_a_walk_through_real_time_finds(window: Window) -> None:
    for text, named in FIXED.items():
        for gap, fold in OPPOSITE:
            assert _stepped(text, window, gap, fold) == due(
                window,
                named,
                real_time=False,
                run_after=gap is GapPolicy.RUN_AFTER,
                both=fold is FoldPolicy.BOTH,
            ), (text, gap, fold)
    for text, named in REAL_TIME.items():
        expected = due(window, named, real_time=True, run_after=False, both=False)
        assert _stepped(text, window, *OPPOSITE[0]) == expected, text


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@pytest.mark.parametrize("window", [MONROVIA, BERLIN], ids=str)
def test_seconds_are_exact_also_where_a_clock_is_put_on_by_44_minutes_and_a_half(
    window: Window, policies: tuple[GapPolicy, FoldPolicy]
) -> None:
    gap, fold = policies
    fixed = _stepped("10,40 20,30,50 0-23 * * ?", window, gap, fold)
    real_time = _stepped("*/20 */5 0-3 ? * *", window, gap, fold)
    assert fixed == due(
        window,
        lambda wall: wall.second in {10, 40} and wall.minute in {20, 30, 50},
        real_time=False,
        run_after=gap is GapPolicy.RUN_AFTER,
        both=fold is FoldPolicy.BOTH,
    )
    assert real_time == due(
        window,
        lambda wall: wall.second % 20 == 0 and wall.minute % 5 == 0 and wall.hour < 4,
        real_time=True,
        run_after=False,
        both=False,
    )


@settings(max_examples=60)
@given(
    window=st.sampled_from(CHANGES),
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=6),
    every_hour=st.booleans(),
    policies=st.sampled_from(POLICIES),
    start=STARTS,
)
def test_from_any_stored_instant_nothing_is_lost_doubled_or_gone_back_to(
    window: Window,
    minutes: set[int],
    hours: set[int],
    every_hour: bool,
    policies: tuple[GapPolicy, FoldPolicy],
    start: int,
) -> None:
    gap, fold = policies
    text = f"{_list(minutes)} {'*' if every_hour else _list(hours)} * * *"
    expected = due(
        window,
        lambda wall: wall.minute in minutes and (every_hour or wall.hour in hours),
        real_time=every_hour,
        run_after=gap is GapPolicy.RUN_AFTER,
        both=fold is FoldPolicy.BOTH,
    )
    stored = _instant(window, start)
    assert _stepped(text, window, gap, fold, stored) == [each for each in expected if each > stored]


@settings(max_examples=150)
@given(
    window=st.sampled_from(CHANGES),
    text=st.sampled_from([*FIXED, *REAL_TIME]),
    policies=st.sampled_from(POLICIES),
    start=STARTS,
    between=st.integers(0, 100),
)
def test_the_next_occurrence_is_the_same_from_every_instant_before_it(
    window: Window, text: str, policies: tuple[GapPolicy, FoldPolicy], start: int, between: int
) -> None:
    schedule = _schedule(text, window, *policies)
    stored = _instant(window, start)
    following = schedule.next_after(stored)
    assert following is not None
    assert following > stored
    later = UtcInstant(stored.ticks + (following.ticks - 1 - stored.ticks) * between // 100)
    assert schedule.next_after(later) == following
    assert schedule.latest_until(stored, later) is None
    assert schedule.latest_until(stored, following) == following


def _stepped(
    text: str, window: Window, gap: GapPolicy, fold: FoldPolicy, start: UtcInstant | None = None
) -> list[UtcInstant]:
    """What stepping from one occurrence to the next finds up to the end of the window."""
    schedule = _schedule(text, window, gap, fold)
    found, last = [], UtcInstant.from_datetime(window.last)
    at = schedule.next_after(start or UtcInstant.from_datetime(window.first))
    while at is not None and at <= last:
        found.append(at)
        at = schedule.next_after(at)
    return found


def _instant(window: Window, start: int) -> UtcInstant:
    """So many ticks after the change, but not before the window."""
    ticks = UtcInstant.from_datetime(changes(window)[0]).ticks + start
    return UtcInstant(max(ticks, UtcInstant.from_datetime(window.first).ticks))


def _schedule(text: str, window: Window, gap: GapPolicy, fold: FoldPolicy) -> CronSchedule:
    return CronSchedule.parse(text, time_zone=window.zone, gap=gap, fold=fold, after=LONG_AGO)


def _list(values: set[int]) -> str:
    return ",".join(map(str, sorted(values)))
