"""Arguments are read as values of JSON or as a class; what does not fit is named by its place alone."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import pytest

from jobs import JobArgumentsError
from jobs.execution.arguments import read_arguments, read_arguments_as

SECRET = "4111 - at `$.home`"


@dataclass
class Line:
    number: int
    price: Decimal


@dataclass
class Order:
    id: UUID
    placed: datetime
    due: date
    lines: list[Line]
    note: str | None = None


class Loose(TypedDict):
    number: int


@dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"{SECRET} is refused")


def test_integers_keep_all_their_digits_and_texts_all_their_characters() -> None:
    assert read_arguments('{"a": 123456789012345678901234567890}') == {"a": 123456789012345678901234567890}
    assert read_arguments("null") is None
    assert read_arguments('"\\u0000 \\ud83d\\ude00"') == "\x00 😀"
    assert read_arguments_as(int, "123456789012345678901234567890") == 123456789012345678901234567890


def test_a_class_is_made_of_its_json_form() -> None:
    text = (
        '{"id": "12345678-1234-5678-1234-567812345678", "placed": "2026-01-02T03:04:05Z",'
        ' "due": "2026-02-01", "lines": [{"number": 1, "price": "9.90"}]}'
    )
    order = read_arguments_as(Order, text)
    assert order == Order(
        id=UUID("12345678-1234-5678-1234-567812345678"),
        placed=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        due=date(2026, 2, 1),
        lines=[Line(1, Decimal("9.90"))],
    )
    assert read_arguments_as(Loose, '{"number": 3}') == {"number": 3}
    assert read_arguments_as(dict[str, int], '{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (Order, '{"lines": [{"number": "4111"}]}', "the arguments are no Order: see `$.lines[0].number`"),
        (Line, '{"price": 4111}', "the arguments are no Line: the whole lacks `number`"),
        (Order, '{"lines": [{"price": 4111}]}', "the arguments are no Order: `$.lines[0]` lacks `number`"),
        (Line, '{"number": "4111", "price": 1}', "the arguments are no Line: see `$.number`"),
        (list[Line], '[{"number": "4111"}]', "the arguments are no list: see `$[0].number`"),
        (dict[str, int], '{"4111": "x"}', "the arguments are no dict: see `$[...]`"),
        (int | str, "[4111]", "the arguments are no int | str: see the whole"),
        (Positive, '{"number": -4111}', "the arguments are no Positive: see the whole"),
        (list[Positive], '[{"number": -4111}]', "the arguments are no list: see `$[0]`"),
        (Loose, "{}", "the arguments are no Loose: the whole lacks `number`"),
    ],
)
def test_what_does_not_fit_is_named_by_its_place_and_never_by_its_value(
    kind: Any, text: str, told: str
) -> None:
    with pytest.raises(JobArgumentsError) as caught:
        read_arguments_as(kind, text)
    assert str(caught.value) == told
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_a_text_that_cannot_be_read_is_refused_by_the_same_error(text: str) -> None:
    with pytest.raises(JobArgumentsError, match="the arguments cannot be read"):
        read_arguments(text)
