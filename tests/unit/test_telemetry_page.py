"""The page of names lists what the code sends, no more and no less."""

import re
from pathlib import Path

import pytest

from inbox.outcome import ConsumeOutcome as InboxOutcome
from jobs.state import TRANSITIONS, JobState
from uow.telemetry import (
    CORRELATION_BAGGAGE_KEY,
    ConsumeOutcome,
    JobOutcome,
    Metric,
    MetricAttribute,
    Operation,
    PublishOutcome,
    RunOutcome,
    SlotOutcome,
    SpanAttribute,
)
from uow.telemetry.name import UNFINISHED_JOB_STATES

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
ROW = re.compile(r"\| (?P<kind>[a-z ]+) \| `(?P<name>[^`]+)` \|")

NAMES = {
    "span": {
        f"{Operation.PUBLISH} {{routing key}}",
        f"{Operation.CONSUME} {{routing key}}",
        f"{Operation.EXECUTE} {{handler}}",
        f"{Operation.RUN} {{schedule}}",
    },
    "span attribute": set(SpanAttribute),
    "counter": {
        Metric.OPERATIONS,
        Metric.JOB_OPERATIONS,
        Metric.SCHEDULE_SLOTS,
        Metric.SCHEDULE_AUDIT_FAILURES,
    },
    "histogram": {Metric.OPERATION_DURATION, Metric.JOB_OPERATION_DURATION},
    "gauge": {
        Metric.STORED_MESSAGES,
        Metric.OLDEST_MESSAGE_AGE,
        Metric.STORED_JOBS,
        Metric.OLDEST_DUE_AGE,
    },
    "metric attribute": set(MetricAttribute),
    "publish outcome": set(PublishOutcome),
    "consume outcome": set(ConsumeOutcome),
    "run outcome": set(RunOutcome),
    "slot outcome": set(SlotOutcome),
    "job outcome": set(JobOutcome),
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
    assert {str(outcome) for outcome in JobOutcome} == {
        "succeeded",
        "failed",
        "retry_scheduled",
        "cancelled",
        "interrupted",
        "lease_lost",
        "recovered",
        "unknown_handler",
    }
    assert {str(metric) for metric in Metric if metric.startswith("jobs.")} == {
        "jobs.operations",
        "jobs.operation.duration",
        "jobs.stored_jobs",
        "jobs.oldest_due.age",
    }


def test_the_span_of_every_operation_begins_with_its_name() -> None:
    assert {name.split()[0] for name in NAMES["span"]} == set(Operation)


def test_the_inbox_speaks_of_the_same_outcomes() -> None:
    assert {str(outcome) for outcome in InboxOutcome} == {str(outcome) for outcome in ConsumeOutcome}


def test_the_states_counted_by_queue_are_those_in_which_a_job_is_unfinished() -> None:
    ended = {state for state in JobState if JobState.RUNNING not in TRANSITIONS[state]} - {JobState.RUNNING}
    assert set(UNFINISHED_JOB_STATES) == set(JobState) - ended


@pytest.mark.parametrize("names", [SpanAttribute, MetricAttribute])
def test_no_attribute_is_an_id_of_a_message_or_job_or_a_scope(
    names: type[SpanAttribute | MetricAttribute],
) -> None:
    spelled = [name.replace("_", ".") for name in names]
    assert not [name for name in spelled if re.search(r"message\.id\b|job\.id\b|scope", name)]
