"""What a transactional handler writes, enqueues and stages commits together with the success of its job."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, insert, select
from sqlalchemy.exc import OperationalError

from jobs import JobContext, JobFailure, ProgressAnswer
from tests.support.job_bench import NEVER, Bench, Gate, codes
from tests.support.jobs import submission
from uow import Reject, SelfManagedUnitOfWork

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.book"


def booking() -> Any:
    return submission(handler=HANDLER, arguments={"rows": [1]})


class _SerializationError(Exception):
    """What a driver raises when the transaction may succeed the next time, by the code that SQLite has."""

    sqlite_errorcode = 5


def serialization_failure() -> OperationalError:
    return OperationalError("UPDATE", {}, _SerializationError())


async def committed_notes(bench: Bench) -> int:
    """How many business rows others can see, without waiting for whoever writes."""
    async with bench.engine.execution_options(sqlite_begin="DEFERRED").connect() as connection:
        return int((await connection.execute(select(func.count()).select_from(bench.note))).scalar_one())


async def test_effects_events_further_jobs_and_success_are_one_commit(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
        await bench.write(unit)
        unit.stage(submission("follow-up", handler="silent", queue="other"))
        await gate.pass_through()
        return "ledger/1"

    await bench.submit(booking())
    async with bench.executing():
        await gate.until_reached()
        assert await committed_notes(bench) == 0
        gate.open.set()
        await bench.until("succeeded")
    assert await bench.counts() == (1, 1, 2)
    assert await bench.states() == ("succeeded", ["succeeded"])
    assert (await bench.get()).result_reference == "ledger/1"
    assert await bench.states("follow-up") == ("queued", [])
    assert bench.woken == 1


async def test_of_a_handler_that_raises_nothing_is_kept(bench: Bench) -> None:
    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await bench.write(unit)
        await unit.session.flush()
        unit.stage(submission("follow-up"))
        raise LookupError("no such account")

    await bench.run(booking())
    assert await bench.counts() == (0, 0, 1)
    assert await bench.states() == ("failed", ["failed"])
    assert (await bench.get()).error_detail == "LookupError: no such account"


async def test_of_a_handler_that_returns_something_else_than_a_text_nothing_is_kept(bench: Bench) -> None:
    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> Any:
        await bench.write(unit)
        return 17

    await bench.run(booking())
    assert await bench.counts() == (0, 0, 1)
    assert await bench.ending() == ("failed", "result")


async def test_a_failure_that_the_handler_caught_in_a_joined_unit_fails_the_job(bench: Bench) -> None:
    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        await bench.write(unit)
        with pytest.raises(LookupError):
            async with unit:
                raise LookupError("no such account")

    await bench.run(booking())
    assert await bench.counts() == (0, 0, 1)
    assert await bench.ending() == ("failed", "handler_error")


async def test_a_job_that_was_cancelled_before_the_commit_writes_nothing(bench: Bench) -> None:
    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
        await bench.cancel()
        await bench.write(unit)
        return "ledger/1"

    await bench.run(booking(), status_poll_seconds=NEVER)
    assert await bench.counts() == (0, 0, 1)
    assert await bench.states() == ("cancelled", ["cancelled"])
    assert await bench.ending() == ("cancelled", "cancelled")
    assert (await bench.get()).result_reference is None


async def test_progress_within_a_transactional_handler_is_recorded(bench: Bench) -> None:
    answers: list[ProgressAnswer] = []

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        answers.append(await context.progress(10))
        await bench.write(unit)
        answers.append(await context.progress(60, "half"))

    await bench.run(booking())
    assert answers == [ProgressAnswer.RECORDED, ProgressAnswer.RECORDED]
    assert await bench.states() == ("succeeded", ["succeeded"])
    (attempt,) = await bench.attempts()
    assert (attempt.progress_percent, attempt.progress_message) == (60, "half")


async def test_a_transient_failure_of_the_database_repeats_the_handler_within_its_attempt(
    bench: Bench,
) -> None:
    seen: list[Any] = []

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        seen.append(context.arguments["rows"].pop())
        await unit.session.execute(insert(bench.note).values(id=len(seen), text="hello"))
        if len(seen) < 3:
            raise serialization_failure()

    await bench.run(booking())
    assert seen == [1, 1, 1], "each run reads the arguments anew"
    assert await bench.counts() == (1, 0, 1)
    assert await bench.states() == ("succeeded", ["succeeded"])


@ON_ONE_DATABASE
async def test_a_handler_that_was_asked_to_end_is_not_repeated(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER, transactional=True, timeout_seconds=0.05)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        try:
            await gate.pass_through()
        finally:
            raise serialization_failure()

    await bench.run(booking())
    assert len(gate.reached) == 1
    assert await bench.ending() == ("failed", "timeout")


@ON_ONE_DATABASE
async def test_when_the_database_fails_again_and_again_the_job_is_queued_for_later(bench: Bench) -> None:
    calls: list[int] = []

    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        calls.append(context.attempt)
        raise serialization_failure()

    await bench.submit(booking())
    async with bench.executing():
        await bench.until_attempt_ended()
    assert calls == [1] * 5
    assert await bench.ending() == ("queued", "database_lost")
    assert codes(await bench.attempts()) == [("interrupted", "database_lost")]
    job = await bench.get()
    assert job.attempts_left == 4
    assert job.next_run > job.created


@ON_ONE_DATABASE
@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Reject, "rejected"), (lambda text: JobFailure("declined", text), "declined")],
    ids=["reject", "failure"],
)
async def test_a_verdict_of_the_handler_on_a_failure_of_the_database_is_its_verdict(
    bench: Bench, verdict: Callable[[str], Exception], code: str
) -> None:
    @bench.registry.handler(HANDLER, transactional=True)
    async def book(context: JobContext, unit: SelfManagedUnitOfWork) -> None:
        raise verdict("busy") from serialization_failure()

    await bench.run(booking())
    assert await bench.ending() == ("failed", code)
