"""Zones are named as IANA names them, and what no database has is refused by name."""

import copy
import pickle
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest

from jobs.schedule.errors import ScheduleError
from jobs.schedule.occurrence.time_zone import ClockChange, TimeZone


def test_a_zone_is_its_name() -> None:
    berlin = TimeZone("Europe/Berlin")
    zoneinfo.ZoneInfo.clear_cache()
    assert berlin == TimeZone("Europe/Berlin") == copy.deepcopy(berlin) == pickle.loads(pickle.dumps(berlin))
    assert hash(berlin) == hash(TimeZone("Europe/Berlin"))
    assert berlin != TimeZone("Europe/Paris")
    assert repr(berlin) == "TimeZone(name='Europe/Berlin')"


def test_utc_needs_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> zoneinfo.ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert TimeZone("UTC").local(moment) == moment.replace(tzinfo=None)
    with pytest.raises(ScheduleError, match=r"'Etc/UTC' is not in the time zone database .* tzdata"):
        TimeZone("Etc/UTC")


@pytest.mark.parametrize("name", ["Europe/Berln", "Mars/Olympus", "Europe", "America/Argentina", "CEST5"])
def test_an_unknown_name_is_refused_with_the_name(name: str) -> None:
    with pytest.raises(ScheduleError, match=f"time zone: '{name}' is not in the time zone database"):
        TimeZone(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "/etc/localtime",
        "../UTC",
        "Europe/../Asia/Tokyo",
        "Europe/Berlin\0",
        "\ud800",
        "a" * 65,
        "+01:00",
        1,
    ],
)
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError, match="time zone: must be an IANA name like Europe/Berlin, not "):
        TimeZone(name)


@pytest.mark.parametrize("name", ["localtime", "posixrules", "right/Europe/Berlin", "posix/UTC", "Factory"])
def test_names_that_mean_something_else_on_each_machine_are_refused(name: str) -> None:
    with pytest.raises(ScheduleError, match="depends on the machine"):
        TimeZone(name)


def test_a_change_of_the_clock_is_found_from_every_reading_it_concerns() -> None:
    berlin = TimeZone("Europe/Berlin")
    spring = ClockChange(_utc("2026-03-29T01:00"), _wall("2026-03-29T02:00"), _wall("2026-03-29T03:00"))
    autumn = ClockChange(_utc("2026-10-25T01:00"), _wall("2026-10-25T03:00"), _wall("2026-10-25T02:00"))
    for seconds in (0, 1, 1800, 3599):
        on = timedelta(seconds=seconds)
        assert berlin.change_at(spring.before + on) == spring
        assert berlin.change_at(autumn.after + on) == autumn
    for change, first, last in ((spring, spring.before, spring.after), (autumn, autumn.after, autumn.before)):
        assert change.repeats == (change is autumn)
        assert berlin.change_at(first - timedelta(seconds=1)) is None
        assert berlin.change_at(last) is None


def test_a_reading_shown_twice_has_two_moments() -> None:
    berlin, wall = TimeZone("Europe/Berlin"), _wall("2026-10-25T02:30")
    assert berlin.first_moment(wall) == _utc("2026-10-25T00:30")
    assert berlin.second_moment(wall) == _utc("2026-10-25T01:30")
    assert berlin.first_moment(wall.replace(hour=4)) == berlin.second_moment(wall.replace(hour=4))


def _wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
