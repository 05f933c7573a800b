"""Options of the inbox: defaults, rules at their boundaries, overrides."""

from typing import Any

import pytest

from inbox.errors import InboxOptionError
from inbox.options import ConsumerOptions, InboxOptions


def test_the_defaults_are_those_of_the_documentation() -> None:
    options = InboxOptions()
    assert options.lease_seconds == 60
    assert options.max_retry_attempts == 10
    assert options.processing_timeout_seconds == 120
    assert (options.backoff.initial_seconds, options.backoff.maximum_seconds) == (5, 900)
    assert options.processed_retention_seconds == 30 * 86_400
    assert (options.busy_recheck_seconds, options.busy_wait_limit_seconds) == (1, 5)
    assert (options.prefetch, options.concurrency) == (64, 16)


@pytest.mark.parametrize(
    "values",
    [
        {"lease_seconds": 1},
        {"max_retry_attempts": 0},
        {"max_retry_attempts": 100},
        {"busy_recheck_seconds": 5.0, "busy_wait_limit_seconds": 5.0},
        {"prefetch": 16},
        {"prefetch": 1, "concurrency": 1},
        {"processing_timeout_seconds": 0.001},
        {"isolate_after": 1},
    ],
)
def test_values_at_their_boundary_are_accepted(values: dict[str, Any]) -> None:
    InboxOptions(**values)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"lease_seconds": 0.999}, "lease_seconds must be at least 1, not 0.999"),
        ({"max_retry_attempts": -1}, "max_retry_attempts must be 0 to 100, not -1"),
        ({"max_retry_attempts": 101}, "max_retry_attempts must be 0 to 100, not 101"),
        ({"processing_timeout_seconds": 0}, "processing_timeout_seconds must be positive, not 0"),
        ({"processed_retention_seconds": -1}, "processed_retention_seconds must be positive, not -1"),
        ({"busy_recheck_seconds": 0}, "busy_recheck_seconds must be positive, not 0"),
        (
            {"busy_wait_limit_seconds": 0.5},
            r"busy_wait_limit_seconds must be at least busy_recheck_seconds \(1.0\), not 0.5",
        ),
        ({"isolate_after": 0}, "isolate_after must be at least 1, not 0"),
        ({"prefetch": 0}, "prefetch must be at least 1, not 0"),
        ({"prefetch": 15}, r"concurrency must be between 1 and prefetch \(15\), not 16"),
        ({"concurrency": 0}, r"concurrency must be between 1 and prefetch \(64\), not 0"),
        ({"prefetch": 64.5}, "prefetch must be at least 1, not 64.5"),
        ({"max_retry_attempts": True}, "max_retry_attempts must be 0 to 100, not True"),
        ({"lease_seconds": "60"}, "lease_seconds must be at least 1, not '60'"),
        ({"lease_seconds": float("nan")}, "lease_seconds must be"),
        ({"lease_seconds": float("inf")}, "lease_seconds must be"),
        ({"processing_timeout_seconds": float("inf")}, "processing_timeout_seconds must be"),
    ],
)
def test_values_past_their_boundary_are_refused_by_name_value_and_rule(
    values: dict[str, Any], told: str
) -> None:
    with pytest.raises(InboxOptionError, match=f"^{told}"):
        InboxOptions(**values)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"max_retry_attempts": -1}, "max_retry_attempts must be 0 to 100, not -1"),
        ({"processing_timeout_seconds": 0.0}, "processing_timeout_seconds must be positive"),
        ({"concurrency": 0}, "concurrency must be at least 1, not 0"),
    ],
)
def test_overrides_obey_the_same_rules(values: dict[str, Any], told: str) -> None:
    with pytest.raises(InboxOptionError, match=f"^{told}"):
        ConsumerOptions(**values)


def test_an_override_changes_its_option_alone() -> None:
    common = InboxOptions(lease_seconds=9)
    assert common.overridden_by(ConsumerOptions()) == common
    own = common.overridden_by(ConsumerOptions(max_retry_attempts=0, concurrency=64))
    assert (own.max_retry_attempts, own.concurrency) == (0, 64)
    assert (own.lease_seconds, own.processing_timeout_seconds) == (9, 120)
    with pytest.raises(InboxOptionError, match=r"concurrency must be between 1 and prefetch \(64\), not 65"):
        common.overridden_by(ConsumerOptions(concurrency=65))
