"""Executors take as many jobs as they may, in their order, and every job once."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from jobs import JobContext, ThreadJobContext
from tests.support.job_bench import NEVER, Bench, Gate
from tests.support.jobs import submission, submissions
from tests.support.waiting import eventually

pytest_plugins = ("tests.support.jobs_fixture", "tests.support.job_bench_fixture")

ON_ONE_DATABASE = pytest.mark.parametrize("database_kind", ["sqlite"])
HANDLER = "invoices.render"
MEBIBYTE = 1024 * 1024
UNWOKEN = {"poll_interval_seconds": NEVER}


async def test_several_executors_run_each_of_many_jobs_once(bench: Bench) -> None:
    called: Counter[str] = Counter()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> str:
        called[context.job_id] += 1
        await asyncio.sleep(0)
        return context.job_id

    jobs = submissions(500)
    await bench.submit(*jobs)
    async with bench.executing(*(bench.executor(concurrency=20 + number) for number in range(4))):
        await bench.over()
    assert called == Counter(job.key.job_id for job in jobs)
    ends = await bench.ends()
    assert all(end[0] == "succeeded" and end.attempts == ["succeeded"] for end in ends.values())
    assert all(end.result == job_id for job_id, end in ends.items())


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling")
async def test_as_many_handlers_run_at_once_as_it_may_and_the_rest_follows_without_a_poll(
    bench: Bench,
) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    await bench.submit(*submissions(60))
    async with bench.executing(concurrency=7, **UNWOKEN) as executor:
        await gate.until_reached(7)
        assert len(executor.running) == 7
        states = [end.state for end in (await bench.ends()).values()]
        assert (states.count("running"), states.count("queued")) == (7, 53)
        gate.open.set()
        await bench.over()
    assert gate.most_inside == 7


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling")
async def test_slots_are_filled_again_while_slow_jobs_go_on(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler("slow")
    async def slow(context: JobContext) -> None:
        await gate.pass_through()

    @bench.registry.handler("quick")
    async def quick(context: JobContext) -> None:
        pass

    slow_ones = submissions(3, prefix="s", handler="slow", priority=1)
    await bench.submit(*slow_ones, *submissions(40, handler="quick"))
    async with bench.executing(concurrency=4, **UNWOKEN):

        async def only_slow_ones_left() -> bool:
            return Counter(end.state for end in (await bench.ends()).values()) == {
                "running": 3,
                "succeeded": 40,
            }

        await eventually(only_slow_ones_left)
        gate.open.set()
        await bench.over()


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling")
async def test_a_queue_has_no_more_handlers_at_once_than_it_may_and_others_are_not_held_up(
    bench: Bench,
) -> None:
    slow, quick = Gate(), Gate()

    @bench.registry.handler("slow")
    async def go_slowly(context: JobContext) -> None:
        await slow.pass_through()

    @bench.registry.handler("quick")
    async def go_quickly(context: JobContext) -> None:
        quick.reached.append(context.job_id)

    slow_ones = submissions(10, prefix="s", handler="slow", queue="reports", priority=9)
    await bench.submit(*slow_ones, *submissions(30, handler="quick"))
    queues = {"queues": ("default", "reports"), "queue_concurrency": {"reports": 2}}
    async with bench.executing(concurrency=6, **queues, **UNWOKEN):
        await slow.until_reached(2)
        await quick.until_reached(30)
        assert slow.inside == 2
        slow.open.set()
        await bench.over()
    assert slow.most_inside == 2
    assert len(slow.reached) == 10


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling")
async def test_a_queue_of_its_own_share_leaves_the_others_their_turn(bench: Bench) -> None:
    order: list[str] = []

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        order.append(context.queue)

    await bench.submit(*submissions(40, prefix="a", queue="a", priority=9), *submissions(5, queue="b"))
    queues = {"queues": ("a", "b"), "queue_concurrency": {"a": 1}}
    async with bench.executing(concurrency=1, **queues, **UNWOKEN):
        await bench.over()
    assert "a" in order[:10]
    assert order[:10].count("b") == 5


async def test_the_highest_priority_goes_first_then_the_longest_due(bench: Bench) -> None:
    order: list[str] = []

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        order.append(context.job_id)

    await bench.submit(submission("low", priority=-5), submission("first"))
    await bench.submit(submission("second"))
    await bench.run(submission("high", priority=7), concurrency=1)
    assert order == ["high", "first", "second", "low"]


@ON_ONE_DATABASE
async def test_jobs_of_other_queues_are_left_alone(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    await bench.submit(submission("a", queue="a"), submission("b", queue="b"), submission("c"))
    async with bench.executing(queues=("b", "default")):
        await bench.until("succeeded", "b")
        await bench.until("succeeded", "c")
    assert await bench.states("a") == ("queued", [])


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling")
async def test_about_so_many_bytes_of_arguments_are_in_hand_at_once(bench: Bench) -> None:
    gate = Gate()

    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        await gate.pass_through()

    @bench.registry.handler("quick")
    async def quick(context: JobContext) -> None:
        pass

    text = "x" * (MEBIBYTE // 3)
    await bench.submit(submission("first", handler="quick", arguments=text))
    async with bench.executing(concurrency=20, argument_bytes=MEBIBYTE, **UNWOKEN) as executor:
        await bench.over()
        await bench.submit(*submissions(10, arguments=text))
        await gate.until_reached(2)
        assert len(executor.running) == 2
        gate.open.set()
        await bench.over()
    assert gate.most_inside == 2
    assert len(gate.reached) == 10


@ON_ONE_DATABASE
@pytest.mark.usefixtures("no_polling")
async def test_arguments_of_the_greatest_size_run_one_by_one(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    def build(context: ThreadJobContext) -> None:
        assert len(context.arguments) == MEBIBYTE - 2

    text = "x" * (MEBIBYTE - 2)
    await bench.submit(*submissions(4, arguments=text))
    async with bench.executing(argument_bytes=MEBIBYTE, **UNWOKEN):
        await bench.over()
    assert {end.state for end in (await bench.ends()).values()} == {"succeeded"}


@ON_ONE_DATABASE
async def test_a_job_that_is_not_due_yet_waits(bench: Bench) -> None:
    @bench.registry.handler(HANDLER)
    async def render(context: JobContext) -> None:
        pass

    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await bench.submit(submission("later", not_before=tomorrow), submission())
    async with bench.executing():
        await bench.until("succeeded")
    assert await bench.states("later") == ("queued", [])
