"""Positions of batch cursors: what JSON can say, exactly, and nothing else."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.schedule.batching.position import (
    PositionError,
    PositionUnreadableError,
    read_position,
    write_position,
)

_NESTED: list[Any] = []
_NESTED.append(_NESTED)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@given(VALUES.filter(lambda value: value is not None))
def test_what_json_can_say_comes_back_exactly(value: Any) -> None:
    text = write_position(value)
    assert text.isascii()
    assert repr(read_position(text)) == repr(value) or read_position(text) == value
    assert write_position(read_position(text)) == text


@pytest.mark.parametrize(
    ("position", "rule"),
    [
        (None, "None, which is the beginning"),
        (math.nan, "the position is not finite"),
        ([1, [-math.inf]], r"the position\[1\]\[0\] is not finite"),
        ({"a": {1: 2}}, r"the position\['a'\] has a key that is int, not text"),
        (datetime(2026, 1, 1, tzinfo=UTC), "is datetime, which JSON does not know; make it text"),
        ([Decimal(1)], r"the position\[0\] is Decimal"),
        (b"x", "is bytes"),
        ({1}, "is set"),
        ("x" * 3999, "takes 4001 characters as JSON; 4000 are allowed"),
        ("\u00e9" * 700, "takes 4202 characters"),
        (_NESTED, "nested too deeply"),
    ],
)
def test_anything_else_is_refused_by_place_and_rule(position: Any, rule: str) -> None:
    with pytest.raises(PositionError, match=rule):
        write_position(position)


def test_a_number_with_more_digits_than_python_writes_is_refused() -> None:
    with pytest.raises(PositionError, match="too many digits"):
        write_position([10**5000])


def test_the_longest_position_is_taken() -> None:
    assert len(write_position("x" * 3998)) == 4000
    assert read_position(write_position(10**3999)) == 10**3999


@pytest.mark.parametrize("text", ["", "{", "[" * 3000, "nothing"])
def test_text_that_is_no_json_is_a_matter_to_look_at(text: str) -> None:
    with pytest.raises(PositionUnreadableError, match="is not JSON"):
        read_position(text)


def test_no_text_is_the_beginning() -> None:
    assert read_position(None) is None
