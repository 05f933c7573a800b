"""Numbers among the options: finite, of the right kind, and within their bounds."""

import math
from dataclasses import fields

import pytest

from relay.kombu_broker import BrokerOptions
from relay.options import RelayOptions
from uow.backoff import Backoff

_NO_SECONDS = [0, -1, math.nan, math.inf, "5", True, None]
_SECONDS = [
    (options, field.name)
    for options in (RelayOptions, BrokerOptions, Backoff)
    for field in fields(options)
    if field.name.endswith("_seconds")
]
_COUNTS = [(RelayOptions, "retention_batch_size"), (BrokerOptions, "unconfirmed_limit")]


@pytest.mark.parametrize(("options", "name"), _SECONDS)
@pytest.mark.parametrize("value", _NO_SECONDS)
def test_every_duration_must_be_positive_and_finite(options: type, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be (positive|at least .*), not "):
        options(**{name: value})


@pytest.mark.parametrize(("options", "name"), _COUNTS)
@pytest.mark.parametrize("value", [0, 10_001, 1.5, "5", True, None])
def test_every_count_must_be_a_whole_number_within_its_bounds(
    options: type, name: str, value: object
) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be a whole number, 1 to 10000, not "):
        options(**{name: value})
    for bound in (1, 10_000):
        assert getattr(options(**{name: bound}), name) == bound


def test_a_bound_of_its_own_is_the_least_that_is_allowed() -> None:
    assert BrokerOptions(heartbeat_seconds=1).heartbeat_seconds == 1
    with pytest.raises(ValueError, match=r"heartbeat_seconds must be at least 1, not 0\.999"):
        BrokerOptions(heartbeat_seconds=0.999)
