"""The audit envelope: a span and a record around each attempt, whose failure changes no result."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import StatusCode
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from jobs.schedule.declaring.result import ScheduleResult
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.hosting.envelope import AuditEnvelope
from jobs.schedule.storing.ground import SCOPE
from tests.support.job_bench import Gate
from tests.support.schedule_bench import ScheduleBench
from tests.support.schedules import NAME, catalog_of, schedule
from tests.support.telemetry import Recording, recorded_telemetry, telemetry_of
from uow.telemetry.name import MetricAttribute

pytest_plugins = ("tests.support.schedules_fixture",)

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
ENVELOPE = "jobs.schedule.hosting.envelope"


async def succeed(context: ScheduleContext) -> ScheduleResult:
    return ScheduleResult.ok("done")


async def fail(context: ScheduleContext) -> ScheduleResult:
    return ScheduleResult.failed("bank_away", "no answer")


async def be_defective(context: ScheduleContext) -> None:
    raise ValueError("the disk is full")


ENDINGS = {
    succeed: ("succeeded", None),
    fail: ("failed", "bank_away"),
    be_defective: ("failed", "handler_error"),
}


@contextlib.contextmanager
def no_records(bench: ScheduleBench, error: Exception) -> Iterator[None]:
    """Nothing can be written into the records of runs that have been staged."""

    def refuse(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("UPDATE jobs_schedule_run"):
            raise error

    engine = bench.engine.sync_engine
    event.listen(engine, "before_cursor_execute", refuse)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", refuse)


def failures(recording: Recording) -> list[tuple[Any, Any]]:
    """Which schedules' records were not written, and how often."""
    return [
        (point.attributes[MetricAttribute.SCHEDULE], point.value)
        for point in recording.points()
        if point.metric == "schedules.audit_failures"
    ]


def run_spans(recording: Recording) -> list[ReadableSpan]:
    return [span for span in recording.spans() if span.name == f"run {NAME}"]


@pytest.mark.parametrize("work", ENDINGS, ids=lambda work: work.__name__)
@pytest.mark.parametrize(
    "error",
    [OperationalError("UPDATE", {}, Exception("the disk is full")), ValueError("a defect")],
    ids=["outage", "defect"],
)
async def test_a_record_that_cannot_be_written_changes_no_result_and_is_told(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture, work: Any, error: Exception
) -> None:
    schedules, run = await bench.asked(work)
    with recorded_telemetry() as recording, no_records(bench, error):
        async with bench.executing(schedules):
            await bench.ended(run)
        assert failures(recording) == [(NAME, 2)]
    job = await bench.job(run)
    assert (job.state.value, job.error_code) == ENDINGS[work]
    warnings = [record for record in caplog.records if record.name == ENVELOPE]
    assert [record.levelno for record in warnings] == [logging.WARNING] * 2
    assert f"the record of run {run.run_id} of schedule {NAME} was not written" in warnings[0].getMessage()
    run = await bench.settled(run)
    assert (run.outcome, run.code, run.attempt, run.started) == (*ENDINGS[work], None, None)
    assert run.ended == job.completed


async def test_a_cancelled_run_is_cancelled_though_its_record_cannot_be_written(
    bench: ScheduleBench,
) -> None:
    gate = Gate()

    async def work(context: ScheduleContext) -> None:
        await gate.pass_through()

    schedules, run = await bench.asked(work)
    with no_records(bench, OperationalError("UPDATE", {}, Exception("the disk is full"))):
        async with bench.executing(schedules):
            await gate.until_reached()
            await bench.step(bench.jobs.store.cancel, SCOPE, run.job_id)
            await bench.ended(run)
    assert (await bench.settled(run)).outcome == "cancelled"


@ON_ONE_DATABASE
async def test_a_run_that_is_recorded_counts_no_failure(bench: ScheduleBench) -> None:
    with recorded_telemetry() as recording:
        await bench.run(succeed)
        assert failures(recording) == []


class BrokenExporter(SpanExporter):
    """An exporter whose collector is away."""

    def export(self, spans: Any) -> Any:
        raise ConnectionError("collector is away")


class Broken:
    """Raises at every use of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"broken {name}")


@pytest.mark.parametrize("work", ENDINGS, ids=lambda work: work.__name__)
@pytest.mark.parametrize("what", ["exporter", "provider"])
async def test_a_failing_exporter_changes_no_result(bench: ScheduleBench, work: Any, what: str) -> None:
    provider: Any = Broken()
    if what == "exporter":
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(BrokenExporter()))
    with telemetry_of(provider, Broken()):
        run = await bench.run(work)
    assert (run.outcome, run.code) == ENDINGS[work]


@ON_ONE_DATABASE
async def test_the_span_of_a_run_is_within_that_of_its_job_and_names_both(bench: ScheduleBench) -> None:
    with recorded_telemetry() as recording:
        run = await bench.run(succeed)
        (span,) = run_spans(recording)
        (job_span,) = [each for each in recording.spans() if each.name.startswith("execute ")]
    assert span.attributes == {
        "selfmanaged.schedule.name": NAME,
        "selfmanaged.schedule.run_id": str(run.run_id),
        "selfmanaged.schedule.cause": "manual",
        "selfmanaged.job.attempt": 1,
        "selfmanaged.outcome": "succeeded",
    }
    assert span.parent is not None
    assert job_span.context is not None
    assert span.parent.span_id == job_span.context.span_id
    assert span.status.status_code is StatusCode.UNSET
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time < span.end_time


@ON_ONE_DATABASE
@pytest.mark.parametrize(("work", "kind"), [(fail, "bank_away"), (be_defective, "ValueError")])
async def test_the_span_of_a_failed_run_is_an_error_without_its_message(
    bench: ScheduleBench, work: Any, kind: str
) -> None:
    with recorded_telemetry() as recording:
        await bench.run(work)
        (span,) = run_spans(recording)
    assert span.attributes is not None
    assert (span.attributes["selfmanaged.outcome"], span.attributes["error.type"]) == ("failed", kind)
    assert span.status.status_code is StatusCode.ERROR
    assert span.events == ()
    assert "disk" not in str(span.to_json())


@ON_ONE_DATABASE
async def test_the_span_of_a_cancelled_run_says_so(bench: ScheduleBench) -> None:
    gate = Gate()

    async def work(context: ScheduleContext) -> None:
        await gate.pass_through()

    schedules, run = await bench.asked(work)
    with recorded_telemetry() as recording:
        async with bench.executing(schedules):
            await gate.until_reached()
            await bench.step(bench.jobs.store.cancel, SCOPE, run.job_id)
            await bench.ended(run)
        (span,) = run_spans(recording)
    assert span.attributes is not None
    assert span.attributes["selfmanaged.outcome"] == "cancelled"
    assert span.status.status_code is not StatusCode.ERROR


@ON_ONE_DATABASE
async def test_each_attempt_at_a_run_has_a_span_with_the_same_run(bench: ScheduleBench) -> None:
    gate = Gate()

    async def work(context: ScheduleContext) -> None:
        await gate.pass_through()

    schedules, run = await bench.asked(work)
    with recorded_telemetry() as recording:
        async with bench.executing(schedules, stop_grace_seconds=0.05):
            await gate.until_reached()
        gate.open.set()
        async with bench.executing(schedules):
            await bench.ended(run)
        spans = [dict(span.attributes or {}) for span in run_spans(recording)]
    assert [span["selfmanaged.job.attempt"] for span in spans] == [1, 2]
    assert [span["selfmanaged.schedule.cause"] for span in spans] == ["manual", "retry"]
    assert [span["selfmanaged.outcome"] for span in spans] == ["cancelled", "succeeded"]
    assert {span["selfmanaged.schedule.run_id"] for span in spans} == {str(run.run_id)}


@ON_ONE_DATABASE
async def test_what_a_run_does_is_within_its_span(bench: ScheduleBench) -> None:
    seen: list[int] = []

    async def work(context: ScheduleContext) -> None:
        await asyncio.sleep(0)
        seen.append(trace.get_current_span().get_span_context().span_id)

    with recorded_telemetry() as recording:
        await bench.run(work)
        (span,) = run_spans(recording)
    assert span.context is not None
    assert seen == [span.context.span_id]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, GeneratorExit])
def test_nothing_is_awaited_any_more_when_the_process_is_ending(
    ending: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(context: ScheduleContext) -> None:
        await asyncio.sleep(0)

    async def record(*_arguments: Any) -> None:
        await asyncio.sleep(0)

    envelope = AuditEnvelope(Broken(), Broken(), Broken())  # type: ignore[arg-type]
    monkeypatch.setattr(envelope, "_record", record)
    arguments = {"schedule": NAME, "nominal": "2026-01-01T00:01:00Z", "cause": "schedule"}
    job = SimpleNamespace(arguments=arguments, attempt=1, job_id="j", stop_reason=None)
    run = envelope.handler_of(catalog_of(schedule(), work=wait)[NAME]).function(job)
    run.send(None)  # records that it has begun
    run.send(None)  # works
    with pytest.raises(ending):
        run.throw(ending())
