"""What a handler raises or returns ends its attempt with a code, and leaves no job running."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

from jobs import JobContext, JobFailure, JobRegistry, RetryPolicy, ThreadJobContext
from tests.support.job_bench import Bench
from tests.support.jobs import submission
from tests.support.telemetry import recorded_telemetry
from uow import CommitOutcomeUnknownError, Reject, RetryAfter
from uow.backoff import Backoff

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
OURS = "jobs.execution.errors"
AT_ONCE = Backoff(initial_seconds=0.001, maximum_seconds=0.001)
ALWAYS = RetryPolicy(on=(BaseException,), backoff=AT_ONCE)


@dataclass
class Invoice:
    number: int


class BrokenTextError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class HalfMadeFailure(JobFailure):
    """Of a host that forgot to call the constructor it inherits."""

    def __init__(self) -> None:
        pass


class HalfMadeWish(RetryAfter):
    """The same."""

    def __init__(self) -> None:
        pass


class BrokenPolicy(RetryPolicy):
    def delay_seconds(self, error: BaseException, attempt: int) -> float | None:
        raise LookupError("no delay")


class UnitlessPolicy(RetryPolicy):
    def delay_seconds(self, error: BaseException, attempt: int) -> Any:
        return "soon"


def raising(kind: Callable[..., BaseException], *values: Any) -> Callable[[Any], NoReturn]:
    """What raises a new one each time."""

    def fail(_context: Any) -> NoReturn:
        raise kind(*values)

    return fail


def raise_from_itself(_context: Any) -> NoReturn:
    try:
        raise ValueError("c")
    except ValueError as error:
        raise error from error


def return_number(_context: Any) -> Any:
    return 17


def read_another_kind(context: Any) -> None:
    context.arguments_as(Invoice)


Case = tuple[Callable[[Any], Any], RetryPolicy | None, str, str | None]
"""What the handler does, its policy, and the code and the detail of its end."""

ENDS: dict[str, Case] = {
    "error": (raising(ValueError, "no paper"), None, "handler_error", "ValueError: no paper"),
    "reject": (
        raising(Reject, "no such customer"),
        ALWAYS,
        "rejected",
        "uow.outcome.Reject: no such customer",
    ),
    "failure": (
        raising(JobFailure, "declined", "no money"),
        None,
        "declined",
        f"{OURS}.JobFailure: no money",
    ),
    "blank code": (raising(JobFailure, " "), None, "unspecified", f"{OURS}.JobFailure:  "),
    "arguments": (
        read_another_kind,
        ALWAYS,
        "arguments",
        f"{OURS}.JobArgumentsError: the arguments are no Invoice: see `$.number`",
    ),
    "result": (
        return_number,
        ALWAYS,
        "result",
        f"{OURS}.JobResultError: handler case must return a text, the result reference, or None, not int",
    ),
    "exit": (raising(SystemExit, 3), None, "handler_error", "SystemExit: 3"),
    "cancelled by nobody": (
        raising(asyncio.CancelledError),
        None,
        "handler_error",
        "asyncio.exceptions.CancelledError",
    ),
    "group of one": (
        raising(ExceptionGroup, "children", [ExceptionGroup("children", [JobFailure("declined", "x")])]),
        None,
        "declined",
        f"{OURS}.JobFailure: x",
    ),
    "group of two": (
        raising(ExceptionGroup, "children", [ValueError("a"), ValueError("b")]),
        None,
        "handler_error",
        "ExceptionGroup: children (2 sub-exceptions)",
    ),
    "broken text": (
        raising(BrokenTextError),
        None,
        "handler_error",
        f"{BrokenTextError.__module__}.BrokenTextError",
    ),
    "half-made failure": (raising(HalfMadeFailure), None, "handler_error", None),
    "half-made wish": (raising(HalfMadeWish), ALWAYS, "retry_after", None),
    "raising policy": (raising(ValueError, "a"), BrokenPolicy(), "handler_error", "ValueError: a"),
    "policy without a number": (raising(ValueError, "b"), UnitlessPolicy(), "handler_error", "ValueError: b"),
    "caused by itself": (raise_from_itself, None, "handler_error", "ValueError: c"),
}
IN_THREADS: dict[str, Case] = {
    "stop iteration": (raising(StopIteration), None, "handler_error", None),
    "interrupt": (raising(KeyboardInterrupt), None, "handler_error", None),
    "generator exit": (raising(GeneratorExit), None, "handler_error", None),
    "exit": (raising(SystemExit, 3), None, "handler_error", "SystemExit: 3"),
    "wait that was cancelled": (raising(asyncio.CancelledError), None, "handler_error", None),
}


async def test_whatever_a_handler_does_ends_its_only_attempt_with_a_code(bench: Bench) -> None:
    for name, (do, retry, _, _) in ENDS.items():
        handler = name.replace(" ", "-")

        @bench.registry.handler(handler, retry=retry)
        async def case(context: JobContext, do: Callable[[Any], Any] = do) -> Any:
            return do(context)

        @bench.registry.handler(handler, version=2, retry=retry, transactional=True)
        async def in_a_unit(context: JobContext, unit: Any, do: Callable[[Any], Any] = do) -> Any:
            return do(context)

    for name, (do, retry, _, _) in (ENDS | IN_THREADS).items():
        bench.registry.handler(name.replace(" ", "-"), version=3, retry=retry)(do)
    kinds = {1: ENDS, 2: ENDS, 3: ENDS | IN_THREADS}
    jobs = [
        submission(
            f"{name} {version}", handler=name.replace(" ", "-"), version=version, arguments={"number": "x"}
        )
        for version, cases in kinds.items()
        for name in cases
    ]
    await bench.run(*jobs, concurrency=50)
    ends = await bench.ends()
    for version, cases in kinds.items():
        for name, (_, _, code, detail) in cases.items():
            end = ends[f"{name} {version}"]
            assert (name, version, *end[:2], end.attempts) == (name, version, "failed", code, ["failed"])
            told = (end.detail or "").replace(f"handler {name.replace(' ', '-')}", "handler case")
            assert detail is None or told == detail, (name, version)


async def test_a_failure_that_a_policy_names_is_retried_and_another_is_not(bench: Bench) -> None:
    policy = RetryPolicy(on=(OSError,), give_up_on=(PermissionError,), backoff=AT_ONCE)
    errors = {"refused": ConnectionRefusedError, "forbidden": PermissionError, "wrong": ValueError}

    @bench.registry.handler("invoices.render", retry=policy)
    async def render(context: JobContext) -> str:
        if context.attempt < 3:
            raise errors[context.job_id]
        return "done"

    await bench.run(*map(submission, errors))
    assert await bench.states("refused") == ("succeeded", ["failed", "failed", "succeeded"])
    assert await bench.states("forbidden") == ("failed", ["failed"])
    assert await bench.states("wrong") == ("failed", ["failed"])
    job = await bench.get("refused")
    assert (job.error_code, job.result_reference) == (None, "done")


async def test_the_last_attempt_fails_for_good(bench: Bench) -> None:
    left: list[int] = []

    @bench.registry.handler("invoices.render", retry=ALWAYS)
    def render(context: ThreadJobContext) -> None:
        left.append(context.attempts_left)
        raise SystemExit(1)

    with recorded_telemetry() as recording:
        await bench.run(submission(max_attempts=3))
        points = recording.points()
    assert left == [2, 1, 0]
    assert await bench.states() == ("failed", ["failed"] * 3)
    outcomes = {
        point.attributes["outcome"]: point.value for point in points if point.metric == "jobs.operations"
    }
    assert outcomes == {"retry_scheduled": 2, "failed": 1}


async def test_a_handler_that_asks_for_a_retry_gets_it_without_a_policy(bench: Bench) -> None:
    @bench.registry.handler("invoices.render")
    async def render(context: JobContext) -> None:
        if context.attempt == 1:
            raise RetryAfter(0.4)
        if context.attempt == 2:
            raise RetryAfter(3600)

    await bench.submit(submission())
    async with bench.executing():
        await bench.until_attempt_ended(ordinal=2)
    first, second = await bench.attempts()
    assert first.ended is not None
    # SQLite writes the job and the attempt in two statements, each with its own time.
    assert second.started.ticks - first.ended.ticks >= 0.3 * 10_000_000
    job = await bench.get()
    assert (job.state, job.error_code) == ("queued", "retry_after")
    assert second.ended is not None
    assert abs(job.next_run.ticks - second.ended.ticks - 3600 * 10_000_000) < 10_000_000


@ON_ONE_DATABASE
async def test_the_pause_grows_with_each_attempt(bench: Bench) -> None:
    steady = Backoff(initial_seconds=0.1, maximum_seconds=10, jitter=0)

    @bench.registry.handler("invoices.render", retry=RetryPolicy(backoff=steady))
    async def render(context: JobContext) -> None:
        raise ValueError

    await bench.run(submission(max_attempts=4))
    attempts = await bench.attempts()
    pauses = [
        after.started.ticks - before.ended.ticks
        for before, after in itertools.pairwise(attempts)
        if before.ended is not None
    ]
    assert len(pauses) == 3
    for pause, least in zip(pauses, (0.05, 0.15, 0.35), strict=True):
        assert pause >= least * 10_000_000


@ON_ONE_DATABASE
async def test_a_registry_gives_its_policy_to_handlers_without_one(bench: Bench) -> None:
    registry = JobRegistry(retry=ALWAYS, timeout_seconds=0.05)

    @registry.handler("a")
    async def hang(context: JobContext) -> None:
        await asyncio.Event().wait()

    await bench.submit(submission(handler="a", max_attempts=2))
    async with bench.executing(bench.executor(registry)):
        await bench.over()
    assert await bench.states() == ("failed", ["failed"] * 2)
    assert (await bench.get()).error_code == "timeout"


@ON_ONE_DATABASE
async def test_a_commit_of_unknown_outcome_of_a_handlers_own_unit_is_its_failure(bench: Bench) -> None:
    """Not an outage that the job could simply be repeated after: nobody knows what was kept."""

    @bench.registry.handler("invoices.render")
    async def render(context: JobContext) -> None:
        raise CommitOutcomeUnknownError(None, [])

    await bench.run(submission())
    assert await bench.ending() == ("failed", "handler_error")
