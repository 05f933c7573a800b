"""Texts that no column can hold leave no job running; what was submitted is told in no error and no log."""

import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from jobs import JobContext, JobFailure, RetryPolicy
from tests.support.job_bench import Bench
from tests.support.jobs import submission
from uow.text import utf16_units

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
TEN_MEGABYTES = 10_000_000
HOSTILE = {
    "nul": "a\x00b",
    "surrogate": "a\ud800b",
    "large": "x" * TEN_MEGABYTES,
    "large-wide": "😀" * (TEN_MEGABYTES // 4),
    "empty": "",
}
SECRET = "4111-1111-1111-1111"


@dataclass
class Card:
    number: int


async def test_no_text_of_a_handler_leaves_its_job_running(bench: Bench) -> None:
    @bench.registry.handler("result")
    async def give(context: JobContext) -> str:
        await context.progress(50, HOSTILE[context.arguments])
        return HOSTILE[context.arguments]

    @bench.registry.handler("result", version=2, transactional=True)
    async def give_in_unit(context: JobContext, unit: Any) -> str:
        await bench.write(unit, list(HOSTILE).index(context.arguments))
        return HOSTILE[context.arguments]

    @bench.registry.handler("failure")
    async def fail(context: JobContext) -> None:
        raise JobFailure(HOSTILE[context.arguments], HOSTILE[context.arguments])

    @bench.registry.handler("error")
    async def err(context: JobContext) -> None:
        raise ValueError(HOSTILE[context.arguments])

    handlers = (("result", 1), ("result", 2), ("failure", 1), ("error", 1))
    await bench.run(
        *(
            submission(f"{name} {version} {text}", handler=name, version=version, arguments=text)
            for name, version in handlers
            for text in HOSTILE
        )
    )
    ends = await bench.ends()
    for text, value in HOSTILE.items():
        for version in (1, 2):
            end = ends[f"result {version} {text}"]
            assert (end.state, end.attempts) == ("succeeded", ["succeeded"])
            assert utf16_units(end.result or "") == min(utf16_units(value), 1000)
        for name in ("failure", "error"):
            end = ends[f"{name} 1 {text}"]
            assert (end.state, end.attempts) == ("failed", ["failed"])
            assert utf16_units(end.detail or "") <= 1000
            assert 1 <= utf16_units(end.code or "") <= 64
    (attempt,) = await bench.attempts("result 1 nul")
    assert attempt.progress_message == attempt.result_reference == "a\ufffdb"
    assert ends["result 1 surrogate"].result == "a\ufffdb"
    assert await bench.counts() == (len(HOSTILE), len(HOSTILE), 4 * len(HOSTILE))


def quote_the_text(context: JobContext) -> None:
    raise ValueError(f"cannot charge {context.arguments_json} now")


def read_as_another_kind(context: JobContext) -> None:
    context.arguments_as(Card)


def convert(context: JobContext) -> None:
    import msgspec

    msgspec.convert(context.arguments["number"], int)


def validate(context: JobContext) -> None:
    import pydantic

    pydantic.TypeAdapter(int).validate_python(context.arguments["number"])


def insert(context: JobContext) -> None:
    number = context.arguments["number"]
    driver_error = sqlite3.IntegrityError(f"{number} is there already")
    raise IntegrityError("INSERT INTO card", {"number": number}, driver_error)


@ON_ONE_DATABASE
async def test_arguments_are_told_neither_in_errors_nor_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    ways = (quote_the_text, read_as_another_kind, convert, validate, insert)
    for way in ways:

        @bench.registry.handler(way.__name__, retry=RetryPolicy(on=(OSError,)))
        async def fail(context: JobContext, way: Any = way) -> None:
            way(context)

    await bench.run(
        *(submission(way.__name__, handler=way.__name__, arguments={"number": SECRET}) for way in ways)
    )
    for way in ways:
        job = await bench.get(way.__name__)
        assert job.state == "failed"
        assert job.error_detail
        assert SECRET not in job.error_detail
    assert (await bench.get("quote_the_text")).error_detail == "ValueError: cannot charge [payload] now"
    ours = [record for record in caplog.records if record.name.startswith(("jobs", "uow"))]
    assert len(ours) >= len(ways)
    assert not [record for record in ours if SECRET in record.getMessage() + str(record.exc_text)]


@ON_ONE_DATABASE
async def test_a_started_job_does_not_show_its_arguments(bench: Bench) -> None:
    shown: list[str] = []

    @bench.registry.handler("invoices.render")
    async def render(context: JobContext) -> None:
        shown.append(f"{context!r} {context._job!r} {context.reference!r}")

    await bench.run(submission(arguments={"number": SECRET}))
    assert SECRET not in shown[0]
