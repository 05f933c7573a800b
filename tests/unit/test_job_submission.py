"""A submission is checked and serialized at once; every limit is exact."""

import dataclasses
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from jobs import JobIdentityConflictError, JobKey, JobSubmission, JobSubmissionError, scope_hash
from jobs.submission import ARGUMENT_BYTES
from tests.support.jobs import submission
from uow.errors import FixTheCodeError
from uow.telemetry import use_correlation_id
from uow.text import TextError
from uow.ticks import UtcInstant


class Colour(StrEnum):
    RED = "red"


@dataclass
class Invoice:
    number: int
    total: Decimal


class Customer(BaseModel):
    name: str
    since: date


def text_of(arguments: object) -> str:
    return submission(arguments=arguments).arguments


def test_a_submission_has_the_promised_defaults() -> None:
    one = submission("invoice-1")
    assert one.key == JobKey(scope_hash("tenant-1"), "invoice-1")
    assert (one.handler, one.handler_version, one.queue) == ("invoices.render", 1, "default")
    assert (one.max_attempts, one.priority, one.initial_not_before) == (5, 0, None)
    assert one.arguments == "null"


def test_arguments_are_written_with_sorted_keys_at_every_depth() -> None:
    assert text_of({"b": 1, "a": {"z": [1, 2], "c": None}}) == '{"a":{"c":null,"z":[1,2]},"b":1}'
    assert text_of({"b": 1, "a": 2}) == text_of({"a": 2, "b": 1})


def test_arguments_are_serialized_at_once() -> None:
    arguments = {"lines": [1]}
    one = submission(arguments=arguments)
    arguments["lines"].append(2)
    arguments["more"] = []
    assert one.arguments == '{"lines":[1]}'


def test_a_submission_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        submission().queue = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Invoice(7, Decimal("12.50")), '{"number":7,"total":"12.50"}'),
        (Customer(name="Zoë", since=date(2026, 1, 1)), '{"name":"Zoë","since":"2026-01-01"}'),
        ((1, "a", True, 1.5), '[1,"a",true,1.5]'),
        (Colour.RED, '"red"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (UtcInstant.parse("2026-01-01T00:00:00.0000007Z"), '"2026-01-01T00:00:00.0000007Z"'),
        (datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00+00:00"'),
        ("\x00 😀", '"\\u0000 😀"'),
        (2**63, "9223372036854775808"),
    ],
)
def test_values_with_a_json_form_are_written(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    "value",
    [
        {1: "a key that is no text"},
        {"a", "set"},
        b"bytes",
        object(),
        2**64,
        "\ud800",
        datetime(2026, 1, 1),  # noqa: DTZ001 - the point
        Decimal("NaN"),
        float("nan"),
        {"deep": [1, {"down": float("-inf")}]},
    ],
)
def test_values_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(JobSubmissionError, match="arguments have no JSON form") as caught:
        text_of(value)
    assert caught.value.field == "arguments"


def test_a_number_that_is_not_finite_is_named_by_its_path() -> None:
    with pytest.raises(JobSubmissionError, match=r"\['deep'\]\[1\] is not finite"):
        text_of({"deep": [None, float("inf")]})


def test_arguments_nested_without_end_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(JobSubmissionError, match="no JSON form"):
        text_of(endless)


def test_exact_text_is_kept_as_it_is() -> None:
    text = '{ "b":1,  "a":1.0,"a":2 }\n'
    assert submission(arguments_json=text).arguments == text


@pytest.mark.parametrize("text", ["", "{", "NaN", "{'a':1}", "\ufeff{}", '"\\ud800"', "1 2"])
def test_exact_text_must_be_json(text: str) -> None:
    with pytest.raises(JobSubmissionError, match="arguments_json is not JSON"):
        submission(arguments_json=text)


@pytest.mark.parametrize("text", ['"a\x00b"', '"\ud800"'])
def test_exact_text_that_no_database_can_hold_is_refused(text: str) -> None:
    with pytest.raises(TextError, match="arguments_json must not contain"):
        submission(arguments_json=text)


def test_arguments_are_given_once() -> None:
    with pytest.raises(JobSubmissionError, match="given twice"):
        submission(arguments={}, arguments_json="{}")


def test_arguments_take_at_most_one_mebibyte_of_utf_8() -> None:
    assert len(text_of("é" * ((ARGUMENT_BYTES - 2) // 2)).encode()) == ARGUMENT_BYTES
    for too_long in (
        {"arguments": "é" * (ARGUMENT_BYTES // 2)},
        {"arguments_json": " " * ARGUMENT_BYTES + "1"},
    ):
        with pytest.raises(JobSubmissionError, match=r"arguments take 104857\d UTF-8 bytes") as caught:
            submission(**too_long)
        assert "é" not in str(caught.value)


@pytest.mark.parametrize("job_id", ["x", "😀" * 100, "x" * 200, " x ", "a\nb"])
def test_job_ids_of_up_to_200_utf_16_units_are_taken_as_they_are(job_id: str) -> None:
    assert submission(job_id).key.job_id == job_id


@pytest.mark.parametrize(
    "job_id", ["", " ", "\n\t", "x" * 201, "😀" * 100 + "x", "a\x00b", "a\ud800", 7, None]
)
def test_other_job_ids_are_refused(job_id: object) -> None:
    with pytest.raises(TextError, match="job_id must"):
        submission(job_id)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["handler", "queue"])
@pytest.mark.parametrize("name", ["a", "A-Z.a_z-09", "x" * 128])
def test_names_of_handlers_and_queues(field: str, name: str) -> None:
    assert getattr(submission(**{field: name}), field) == name


@pytest.mark.parametrize("field", ["handler", "queue"])
@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "ä", "a/b", "a\n", "٣", None])
def test_other_names_of_handlers_and_queues_are_refused(field: str, name: object) -> None:
    with pytest.raises(JobSubmissionError, match=f"^{field} must be 1 to 128 characters"):
        submission(**{field: name})


@pytest.mark.parametrize(
    ("option", "field", "least", "most"),
    [
        ("version", "handler_version", 1, 2_147_483_647),
        ("max_attempts", "max_attempts", 1, 100),
        ("priority", "priority", -100, 100),
    ],
)
def test_numbers_have_exact_limits(option: str, field: str, least: int, most: int) -> None:
    assert getattr(submission(**{option: least}), field) == least
    assert getattr(submission(**{option: most}), field) == most
    for wrong in (least - 1, most + 1, 1.0, True, "1", None):
        with pytest.raises(JobSubmissionError, match=f"{field} must be a whole number, {least} to {most}"):
            submission(**{option: wrong})


def test_a_schedule_is_an_exact_moment() -> None:
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert submission(not_before=moment).initial_not_before == UtcInstant.parse("2026-01-01T10:00:00Z")
    instant = UtcInstant(7)
    assert submission(not_before=instant).initial_not_before is instant


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "2026-01-01", 7])  # noqa: DTZ001 - the point
def test_a_schedule_without_a_zone_is_refused(moment: object) -> None:
    with pytest.raises(JobSubmissionError, match="not_before must be a datetime with a time zone"):
        submission(not_before=moment)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("handler", {"handler": "Invoices.render"}),
    ("handler_version", {"version": 2}),
    ("arguments", {"arguments_json": "null "}),
    ("queue", {"queue": "Default"}),
    ("max_attempts", {"max_attempts": 6}),
    ("initial_not_before", {"not_before": UtcInstant(0)}),
]


@pytest.mark.parametrize(("field", "change"), CHANGES)
def test_each_part_of_a_request_takes_part_in_its_comparison(field: str, change: dict[str, Any]) -> None:
    assert submission().differs_from(submission(**change)) == (field,)
    assert submission().content != submission(**change).content


def test_priority_and_trace_take_no_part_in_the_comparison() -> None:
    with use_correlation_id("a"):
        traced = submission(priority=7)
    assert traced.trace.correlation_id == "a"
    assert submission().differs_from(traced) == ()
    assert submission().content == traced.content


def test_nothing_of_the_arguments_is_shown() -> None:
    assert "secret" not in repr(submission(arguments={"password": "secret"}))
    error = JobIdentityConflictError(submission().key, ["arguments"])
    assert "arguments" in str(error)


def test_errors_are_the_programs_and_can_be_sent_elsewhere() -> None:
    with pytest.raises(JobSubmissionError) as caught:
        submission(queue="")
    assert isinstance(caught.value, FixTheCodeError)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    conflict = JobIdentityConflictError(submission().key, ["queue"])
    assert str(pickle.loads(pickle.dumps(conflict))) == str(conflict)


def test_a_submission_cannot_be_made_around_its_rules() -> None:
    with pytest.raises(JobSubmissionError, match="max_attempts"):
        dataclasses.replace(submission(), max_attempts=0)
    with pytest.raises(TextError, match="job_id"):
        JobSubmission(
            key=JobKey(scope_hash("a"), ""),
            handler="a",
            handler_version=1,
            arguments="null",
            queue="a",
            max_attempts=1,
            initial_not_before=None,
            priority=0,
        )
