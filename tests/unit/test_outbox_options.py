"""Options of the outbox at the exact boundaries of their rules; errors name option, value and rule."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from outbox import OutboxOptionError, OutboxOptions
from uow.errors import FixTheCodeError


def test_the_defaults_are_those_of_the_specification() -> None:
    options = OutboxOptions()
    assert options.batch_size == 500
    assert options.lease_seconds == 60
    assert options.max_retry_attempts == 10
    assert options.backoff.initial_seconds == 5
    assert options.backoff.maximum_seconds == 900
    assert options.published_retention_seconds == 7 * 86_400
    assert options.maximum_body_bytes == 1_048_576


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("batch_size", 1),
        ("batch_size", 1000),
        ("lease_seconds", 1),
        ("lease_seconds", 1.0),
        ("max_retry_attempts", 0),
        ("max_retry_attempts", 100),
        ("published_retention_seconds", 0.000001),
        ("isolate_after", 1),
        ("isolate_after", 100),
        ("maximum_body_bytes", 1),
    ],
)
def test_a_value_at_the_boundary_is_taken(option: str, value: Any) -> None:
    assert getattr(OutboxOptions(**{option: value}), option) == value


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("batch_size", 0, "be a whole number, 1 to 1000"),
        ("batch_size", 1001, "be a whole number, 1 to 1000"),
        ("batch_size", 1.0, "be a whole number, 1 to 1000"),
        ("batch_size", True, "be a whole number, 1 to 1000"),
        ("batch_size", "500", "be a whole number, 1 to 1000"),
        ("lease_seconds", 0.999999, "be at least 1"),
        ("lease_seconds", float("nan"), "be at least 1"),
        ("lease_seconds", float("inf"), "be at least 1"),
        ("lease_seconds", None, "be at least 1"),
        ("max_retry_attempts", -1, "be a whole number, 0 to 100"),
        ("max_retry_attempts", 101, "be a whole number, 0 to 100"),
        ("published_retention_seconds", 0, "be positive"),
        ("published_retention_seconds", -1.5, "be positive"),
        ("isolate_after", 0, "be a whole number, 1 to 100"),
        ("isolate_after", 101, "be a whole number, 1 to 100"),
        ("maximum_body_bytes", 0, "be a whole number, 1 or more"),
    ],
)
def test_a_value_beyond_it_is_refused_by_option_value_and_rule(option: str, value: Any, rule: str) -> None:
    with pytest.raises(OutboxOptionError) as caught:
        OutboxOptions(**{option: value})
    assert str(caught.value) == f"{option} must {rule}, not {value!r}"
    assert isinstance(caught.value, FixTheCodeError)
    assert isinstance(caught.value, ValueError)


def test_options_are_frozen_and_given_by_name() -> None:
    with pytest.raises(FrozenInstanceError):
        OutboxOptions().batch_size = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        OutboxOptions(500)  # type: ignore[misc]


@pytest.mark.parametrize(("attempts", "claims"), [(0, 13), (10, 13), (11, 14), (100, 103)])
def test_a_suspect_is_buried_ten_claims_after_its_isolation_at_the_earliest(
    attempts: int, claims: int
) -> None:
    assert OutboxOptions(max_retry_attempts=attempts).bury_after == claims
