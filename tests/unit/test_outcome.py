"""What a handler may say instead of succeeding."""

import math
from datetime import timedelta

import pytest

from uow.errors import SelfManagedError
from uow.outcome import Reject, RetryAfter


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)])
def test_retry_after_takes_seconds_or_a_timedelta(delay: float | timedelta) -> None:
    assert RetryAfter(delay).delay_seconds == 90.0
    assert str(RetryAfter(delay)) == "retry after 90 s"
    assert str(RetryAfter(delay, "bank is closed")) == "bank is closed"


@pytest.mark.parametrize("delay", [0, -1, timedelta(0), math.nan, math.inf, 366 * 86_400 + 1])
def test_a_delay_that_is_none_is_refused(delay: float | timedelta) -> None:
    with pytest.raises(ValueError, match="delay must be positive and at most 366 days"):
        RetryAfter(delay)


def test_the_longest_delay_is_366_days() -> None:
    assert RetryAfter(timedelta(days=366)).delay_seconds == 366 * 86_400


def test_a_wish_is_no_error_of_the_framework() -> None:
    assert not issubclass(RetryAfter, SelfManagedError)
    assert not issubclass(Reject, SelfManagedError)
    assert str(Reject("unknown customer")) == "unknown customer"
