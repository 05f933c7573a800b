"""A handler gets its job as it was submitted, and what it returns and reports is stored."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from jobs import JobContext, JobRegistry, JobState, ProgressAnswer, ThreadJobContext
from tests.support.job_bench import NEVER, Bench, Gate
from tests.support.jobs import key, submission
from tests.support.telemetry import recorded_telemetry
from tests.support.waiting import eventually
from uow.telemetry import current_correlation_id, use_correlation_id

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"


@dataclass(frozen=True)
class Invoice:
    number: int
    customer: str


async def test_what_a_handler_returns_is_the_result_reference(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        return f"s3://invoices/{context.job_id}"

    @bench.registry.handler("silent")
    async def say_nothing(context: JobContext) -> None:
        pass

    await bench.run(submission("a"), submission("b", handler="silent"))
    results = {job_id: (await bench.get(job_id)).result_reference for job_id in ("a", "b")}
    assert results == {"a": "s3://invoices/a", "b": None}
    assert await bench.states("a") == ("succeeded", ["succeeded"])
    assert await bench.states("b") == ("succeeded", ["succeeded"])


async def test_a_function_runs_in_a_thread_of_its_own(bench: Bench) -> None:
    threads: list[threading.Thread] = []

    @bench.registry.handler(HANDLER)
    def render(context: ThreadJobContext) -> str:
        threads.append(threading.current_thread())
        assert context.progress(30, "begun") is ProgressAnswer.RECORDED
        return context.arguments["path"]

    await bench.run(submission(arguments={"path": "s3://a"}))
    assert (await bench.get()).result_reference == "s3://a"
    (attempt,) = await bench.attempts()
    assert (attempt.progress_percent, attempt.progress_message) == (30, "begun")
    assert threads[0] is not threading.main_thread()
    assert (threads[0].daemon, threads[0].name) == (True, f"job {HANDLER}")


async def test_a_handler_sees_which_job_and_which_attempt_it_runs(bench: Bench) -> None:
    seen: list[JobContext] = []

    @bench.registry.handler(HANDLER, version=3)
    async def render(context: JobContext) -> None:
        seen.append(context)

    await bench.run(submission(version=3, max_attempts=4))
    (context,) = seen
    job = await bench.get()
    assert (context.job_id, context.scope_hash, context.reference.key) == ("j", key().scope_hash, key())
    assert (context.attempt, context.attempts_left) == (1, 3)
    assert (context.handler, context.queue, context.created) == ((HANDLER, 3), "default", job.created)
    assert (context.stop_reason, context.correlation_id) == (None, None)


async def test_arguments_come_as_values_as_exact_text_and_as_a_dataclass(bench: Bench) -> None:
    seen: dict[str, tuple[Any, str, Any]] = {}

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        seen[context.job_id] = context.arguments, context.arguments_json, context.arguments_as(Invoice)

    spaced = '{ "number":  123456789012345678901234567890, "customer": "Zo\\u00eb \\ud83d\\ude00" }'
    await bench.run(
        submission("a", arguments={"number": 7, "customer": "Zoë"}),
        submission("b", arguments_json=spaced),
    )
    assert seen["a"] == (
        {"number": 7, "customer": "Zoë"},
        '{"customer":"Zoë","number":7}',
        Invoice(7, "Zoë"),
    )
    large = 123456789012345678901234567890
    assert seen["b"] == ({"number": large, "customer": "Zoë 😀"}, spaced, Invoice(large, "Zoë 😀"))


async def test_progress_is_stored_while_the_handler_runs(bench: Bench) -> None:
    gate = Gate()
    answers: list[ProgressAnswer] = []

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        answers.append(await context.progress(40, "page 4 of 10"))
        answers.append(await context.progress(39))
        with pytest.raises(ValueError, match="percent must be a whole number"):
            await context.progress(101)
        await gate.pass_through()

    await bench.submit(submission())
    async with bench.executing():
        await gate.until_reached()
        job, (attempt,) = await bench.get(), await bench.attempts()
        assert job.state is JobState.RUNNING
        for each in (job, attempt):
            assert (each.progress_percent, each.progress_message) == (40, "page 4 of 10")
        gate.open.set()
        await bench.until("succeeded")
    assert answers == [ProgressAnswer.RECORDED, ProgressAnswer.LOWER]


@ON_ONE_DATABASE
async def test_the_correlation_id_of_the_submission_is_in_force_in_every_kind_of_handler(
    bench: Bench,
) -> None:
    seen: dict[str, tuple[str | None, str | None]] = {}

    @bench.registry.handler("plain")
    async def plain(context: JobContext) -> None:
        await asyncio.sleep(0)
        seen["plain"] = context.correlation_id, current_correlation_id()

    @bench.registry.handler("thread")
    def thread(context: ThreadJobContext) -> None:
        seen["thread"] = context.correlation_id, current_correlation_id()

    @bench.registry.handler("transactional", transactional=True)
    async def transactional(context: JobContext, unit: Any) -> None:
        seen["transactional"] = context.correlation_id, current_correlation_id()

    kinds = ("plain", "thread", "transactional")
    with use_correlation_id("order-17"):
        await bench.submit(*(submission(kind, handler=kind) for kind in kinds))
    async with bench.executing():
        await bench.over()
    assert seen == dict.fromkeys(kinds, ("order-17", "order-17"))
    assert current_correlation_id() is None


@ON_ONE_DATABASE
async def test_an_attempt_has_a_span_that_is_linked_to_its_submission(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await bench.submit(submission("next", handler="next"))

    @bench.registry.handler("next")
    async def follow(context: JobContext) -> None:
        pass

    with recorded_telemetry() as recording:
        tracer = recording.tracer_provider.get_tracer("selfmanaged")
        with tracer.start_as_current_span("request") as request:
            await bench.submit(submission())
        async with bench.executing():
            await bench.over()
            await eventually(lambda: len(recording.spans()) == 3)
        spans = {span.name: span for span in recording.spans()}
        points = recording.points()
    render_span, follow_span = spans[f"execute {HANDLER}"], spans["execute next"]
    assert [link.context.span_id for link in render_span.links] == [request.get_span_context().span_id]
    assert [link.context.span_id for link in follow_span.links] == [render_span.context.span_id]
    assert render_span.attributes is not None
    assert render_span.attributes["selfmanaged.outcome"] == "succeeded"
    counted = [point for point in points if point.metric == "jobs.operations"]
    assert sorted((point.attributes["handler"], point.value) for point in counted) == [
        (HANDLER, 1),
        ("next", 1),
    ]


@ON_ONE_DATABASE
async def test_handlers_of_several_registries_run_in_one_executor(bench: Bench) -> None:
    other = JobRegistry()

    @other.handler(HANDLER, version=2)
    async def second(context: JobContext) -> str:
        return "second"

    @other.handler(HANDLER)
    async def first(context: JobContext) -> str:
        return "first"

    await bench.submit(submission("a"), submission("b", version=2))
    async with bench.executing(bench.executor(other)):
        await bench.over()
    assert [(await bench.get(each)).result_reference for each in "ab"] == ["first", "second"]


@ON_ONE_DATABASE
async def test_the_end_of_a_thread_that_was_asked_to_end_is_awaited(bench: Bench) -> None:
    heard, release = Gate(), threading.Event()
    loop = asyncio.get_running_loop()

    @bench.registry.handler(HANDLER)
    def build(context: ThreadJobContext) -> None:
        loop.call_soon_threadsafe(heard.reached.append, "begun")
        context.wait(NEVER)
        loop.call_soon_threadsafe(heard.reached.append, "asked to end")
        release.wait(20)

    await bench.submit(submission())
    async with bench.executing() as executor:
        await heard.until_reached()
        await bench.cancel()
        await heard.until_reached(2)
        assert await bench.states() == ("running", ["running"])
        assert len(executor.running) == 1
        release.set()
        await bench.until("cancelled")
