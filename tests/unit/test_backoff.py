"""Delays double from the first to the longest, shortened by chance within the jitter."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uow.backoff import Backoff


def test_the_default_doubles_from_5_seconds_to_15_minutes() -> None:
    steady = Backoff(jitter=0)
    delays = [steady.delay_seconds(failures) for failures in range(1, 11)]
    assert delays == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]


@given(st.integers(-5, 10_000))
def test_jitter_only_shortens_and_only_by_its_share(failures: int) -> None:
    longest = Backoff(jitter=0).delay_seconds(failures)
    delay = Backoff(jitter=0.2).delay_seconds(failures)
    assert longest * 0.8 <= delay <= longest


def test_failures_that_came_together_do_not_come_back_together() -> None:
    assert len({Backoff().delay_seconds(3) for _ in range(50)}) > 40


def test_no_count_of_failures_overflows() -> None:
    assert Backoff(jitter=0).delay_seconds(10**9) == 900


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"initial_seconds": 0}, "initial_seconds must be positive, not 0"),
        ({"initial_seconds": -1}, "initial_seconds must be positive, not -1"),
        ({"initial_seconds": math.nan}, "initial_seconds must be positive, not nan"),
        ({"initial_seconds": 5, "maximum_seconds": 4.9}, "maximum_seconds must be at least initial_seconds"),
        ({"maximum_seconds": math.nan}, "maximum_seconds must be positive, not nan"),
        ({"jitter": -0.1}, "jitter must be between 0 and 1, not -0.1"),
        ({"jitter": 1.1}, "jitter must be between 0 and 1, not 1.1"),
        ({"jitter": math.nan}, "jitter must be between 0 and 1, not nan"),
    ],
)
def test_impossible_options_are_refused_with_name_value_and_rule(
    options: dict[str, float], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        Backoff(**options)


def test_equal_limits_and_extreme_jitter_are_allowed() -> None:
    assert Backoff(initial_seconds=1, maximum_seconds=1, jitter=0).delay_seconds(9) == 1
    assert 0 <= Backoff(jitter=1).delay_seconds(1) <= 5
