"""The page of names lists what the code sends, no more and no less."""

import re
from pathlib import Path

import pytest

from inbox.outcome import ConsumeOutcome as InboxOutcome
from uow.telemetry import (
    CORRELATION_BAGGAGE_KEY,
    ConsumeOutcome,
    Metric,
    MetricAttribute,
    Operation,
    PublishOutcome,
    SpanAttribute,
)

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
ROW = re.compile(r"\| (?P<kind>[a-z ]+) \| `(?P<name>[^`]+)` \|")

NAMES = {
    "span": {f"{operation} {{routing key}}" for operation in Operation},
    "span attribute": set(SpanAttribute),
    "counter": {Metric.OPERATIONS},
    "histogram": {Metric.OPERATION_DURATION},
    "gauge": {Metric.STORED_MESSAGES, Metric.OLDEST_MESSAGE_AGE},
    "metric attribute": set(MetricAttribute),
    "publish outcome": set(PublishOutcome),
    "consume outcome": set(ConsumeOutcome),
    "baggage": {CORRELATION_BAGGAGE_KEY},
}


def listed() -> list[tuple[str, str]]:
    """Kind and name of every row of the table."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    matches = [ROW.match(row) for row in rows if not row.startswith(("| Kind", "| ---"))]
    assert None not in matches, "a row is not `| kind | name | ...`"
    return [(match["kind"], match["name"]) for match in matches if match]


def test_the_page_lists_every_name_once_and_no_other() -> None:
    rows = listed()
    assert len(rows) == len(set(rows))
    assert set(rows) == {(kind, str(name)) for kind, names in NAMES.items() for name in names}


def test_every_metric_is_listed_under_its_kind() -> None:
    assert NAMES["counter"] | NAMES["histogram"] | NAMES["gauge"] == set(Metric)


def test_the_names_are_those_that_were_promised() -> None:
    assert {str(outcome) for outcome in PublishOutcome} == {
        "published",
        "publish_failed",
        "dead_letter",
        "lease_lost",
    }
    assert {str(outcome) for outcome in ConsumeOutcome} == {
        "consumed",
        "duplicate",
        "busy",
        "dead_letter",
        "consume_failed",
        "lease_lost",
        "cancelled",
    }


def test_the_inbox_speaks_of_the_same_outcomes() -> None:
    assert {str(outcome) for outcome in InboxOutcome} == {str(outcome) for outcome in ConsumeOutcome}


@pytest.mark.parametrize("names", [SpanAttribute, MetricAttribute])
def test_no_attribute_is_a_message_id(names: type[SpanAttribute | MetricAttribute]) -> None:
    assert not [name for name in names if "message.id" in name or "message_id" in name]
