"""A retry policy says which failures another attempt may mend, and when it comes."""

from typing import Any

import pytest

from jobs import RetryPolicy
from uow.backoff import Backoff

STEADY = Backoff(initial_seconds=1, maximum_seconds=5, jitter=0)


def test_failures_are_chosen_by_class_and_given_up_by_class() -> None:
    policy = RetryPolicy(on=(OSError, KeyError), give_up_on=(PermissionError,), backoff=STEADY)
    assert policy.delay_seconds(ConnectionResetError(), 1) == 1
    assert policy.delay_seconds(KeyError(), 1) == 1
    assert policy.delay_seconds(PermissionError(), 1) is None
    assert policy.delay_seconds(ValueError(), 1) is None


def test_by_default_every_exception_is_retried_but_not_the_end_of_a_program() -> None:
    policy = RetryPolicy()
    assert policy.delay_seconds(ValueError(), 1) is not None
    assert policy.delay_seconds(SystemExit(), 1) is None


def test_the_delay_grows_with_the_attempt_up_to_the_longest() -> None:
    policy = RetryPolicy(backoff=STEADY)
    assert [policy.delay_seconds(ValueError(), attempt) for attempt in (1, 2, 3, 4, 100)] == [1, 2, 4, 5, 5]


def test_chance_shortens_a_delay() -> None:
    policy = RetryPolicy(backoff=Backoff(initial_seconds=10, maximum_seconds=10, jitter=0.5))
    delays = [policy.delay_seconds(ValueError(), 1) or 0 for _ in range(50)]
    assert all(5 <= delay <= 10 for delay in delays)
    assert len(set(delays)) > 1


@pytest.mark.parametrize("kinds", [ValueError, [ValueError], (ValueError, "OSError"), (int,), None])
@pytest.mark.parametrize("name", ["on", "give_up_on"])
def test_what_is_no_tuple_of_classes_of_exceptions_is_refused(name: str, kinds: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be a tuple of classes of exceptions"):
        RetryPolicy(**{name: kinds})
