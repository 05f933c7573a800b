"""Instants are exact to 100 ns from year 1 to year 9999."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uow.ticks import MAXIMUM_TICKS, UNIX_EPOCH_TICKS, UtcInstant

TICKS = st.integers(0, MAXIMUM_TICKS)


def test_the_beginning_of_2026_has_the_ticks_that_other_platforms_count() -> None:
    assert UtcInstant.from_datetime(datetime(2026, 1, 1, tzinfo=UTC)).ticks == 639_028_224_000_000_000
    assert UtcInstant.from_datetime(datetime(1970, 1, 1, tzinfo=UTC)).ticks == UNIX_EPOCH_TICKS


@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (0, "0001-01-01T00:00:00.0000000Z"),
        (1, "0001-01-01T00:00:00.0000001Z"),
        (639_028_224_000_000_007, "2026-01-01T00:00:00.0000007Z"),
        (MAXIMUM_TICKS, "9999-12-31T23:59:59.9999999Z"),
    ],
)
def test_the_text_has_seven_digits_and_comes_back(ticks: int, text: str) -> None:
    assert str(UtcInstant(ticks)) == text
    assert UtcInstant.parse(text) == UtcInstant(ticks)


@given(TICKS)
def test_every_instant_survives_its_text(ticks: int) -> None:
    instant = UtcInstant(ticks)
    assert len(str(instant)) == 28
    assert UtcInstant.parse(str(instant)) == instant


@given(TICKS, TICKS)
def test_text_sorts_as_instants_do(first: int, second: int) -> None:
    assert (str(UtcInstant(first)) < str(UtcInstant(second))) == (first < second)
    assert (UtcInstant(first) < UtcInstant(second)) == (first < second)
    assert (UtcInstant(first) >= UtcInstant(second)) == (first >= second)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0000000Z"),
        ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.5000000Z"),
        ("2026-01-01T00:00:00.123456+00:00", "2026-01-01T00:00:00.1234560Z"),
    ],
)
def test_fewer_digits_and_a_zero_offset_are_read(text: str, expected: str) -> None:
    assert str(UtcInstant.parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00.12345678Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+01:00",
        "2026-01-01T00:00:00-00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z",
        "0000-01-01T00:00:00Z",
        "\u0662026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
        " 2026-01-01T00:00:00Z",
    ],
)
def test_everything_else_is_refused_and_no_digit_lost_without_a_word(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each rule has its own words
        UtcInstant.parse(text)


def test_the_range_ends_exactly() -> None:
    for ticks in (-1, MAXIMUM_TICKS + 1):
        with pytest.raises(ValueError, match="ticks must be between 0 and"):
            UtcInstant(ticks)


@pytest.mark.parametrize("ticks", [1.0, "1", True, None])
def test_ticks_are_whole_numbers(ticks: object) -> None:
    with pytest.raises(TypeError, match="ticks must be an int"):
        UtcInstant(ticks)  # type: ignore[arg-type]


class _ZoneWithoutOffset(tzinfo):
    def utcoffset(self, _moment: datetime | None) -> None:
        return None


@pytest.mark.parametrize("zone", [None, _ZoneWithoutOffset()])
def test_a_naive_datetime_is_no_instant(zone: tzinfo | None) -> None:
    with pytest.raises(ValueError, match="without a time zone is not an instant"):
        UtcInstant.from_datetime(datetime(2026, 1, 1, tzinfo=zone))


@pytest.mark.parametrize("fold", [0, 1])
def test_both_hours_of_a_fold_are_different_instants(fold: int) -> None:
    moment = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    assert UtcInstant.from_datetime(moment).to_datetime() == datetime(2026, 10, 25, fold, 30, tzinfo=UTC)


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001 - zone follows
    st.integers(-1439, 1439),
)
def test_a_datetime_survives_to_the_microsecond(moment: datetime, offset_minutes: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    assert UtcInstant.from_datetime(aware).to_datetime() == aware


def test_the_seventh_digit_is_cut_for_datetime() -> None:
    assert UtcInstant.parse("2026-01-01T00:00:00.9999999Z").to_datetime().microsecond == 999_999


def test_an_instant_cannot_be_changed_and_can_be_copied() -> None:
    instant = UtcInstant.now()
    with pytest.raises(FrozenInstanceError):
        instant.ticks = 1
    with pytest.raises(FrozenInstanceError):
        del instant.ticks
    assert copy.deepcopy(instant) == instant == pickle.loads(pickle.dumps(instant))
    assert {instant, UtcInstant(instant.ticks)} == {instant}
    assert repr(instant) == f"UtcInstant(ticks={instant.ticks})"


def test_an_instant_equals_nothing_of_another_type() -> None:
    assert UtcInstant(5) != 5
    with pytest.raises(TypeError):
        UtcInstant(5) < 5  # type: ignore[operator]  # noqa: B015


def test_now_is_within_the_present() -> None:
    before = datetime.now(UTC) - timedelta(microseconds=1)
    assert before <= UtcInstant.now().to_datetime() <= datetime.now(UTC)
