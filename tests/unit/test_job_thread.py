"""A handler in a thread: what it returns and raises comes back, with the context of the caller around it."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from jobs.execution.thread_call import call_in_thread

word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="none")


async def test_it_gets_the_context_variables_of_the_caller_and_changes_none_of_them() -> None:
    def work(_context: Any) -> str:
        seen = word.get()
        word.set("changed")
        return seen

    word.set("given")
    assert await call_in_thread(work, None, name="work") == "given"
    assert word.get() == "given"


async def test_each_call_has_a_thread_of_its_own_that_holds_up_no_process() -> None:
    barrier = threading.Barrier(30)
    threads: set[tuple[str, bool]] = set()

    def work(number: int) -> int:
        barrier.wait(20)
        threads.add((threading.current_thread().name, threading.current_thread().daemon))
        return number

    numbers = await asyncio.gather(*(call_in_thread(work, each, name=f"work {each}") for each in range(30)))
    assert numbers == list(range(30))
    assert threads == {(f"work {each}", True) for each in range(30)}


def raising(error: BaseException) -> Callable[[Any], NoReturn]:
    def work(_context: Any) -> NoReturn:
        raise error

    return work


@pytest.mark.parametrize("error", [ValueError("a"), SystemExit(3), asyncio.CancelledError()], ids=repr)
async def test_what_it_raises_is_raised_where_it_is_awaited(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        await call_in_thread(raising(error), None, name="work")
    assert caught.value is error


@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt, GeneratorExit])
async def test_what_no_future_can_hold_or_would_end_the_event_loop_is_told_by_its_name(
    kind: type[BaseException],
) -> None:
    with pytest.raises(RuntimeError, match=f"the handler raised {kind.__name__}"):
        await call_in_thread(raising(kind()), None, name="work")


async def test_a_caller_that_waits_no_longer_is_not_told() -> None:
    release, ended = threading.Event(), threading.Event()

    def work(_context: Any) -> None:
        release.wait(20)
        ended.set()

    waiting = asyncio.create_task(call_in_thread(work, None, name="work"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert await asyncio.to_thread(ended.wait, 20)


def test_a_thread_that_outlives_its_event_loop_ends_quietly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    threads: list[threading.Thread] = []

    def work(_context: Any) -> None:
        threads.append(threading.current_thread())
        release.wait(20)

    async def leave() -> None:
        waiting = asyncio.create_task(call_in_thread(work, None, name="work"))
        while not threads:
            await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    release.set()
    threads[0].join(20)
    assert not threads[0].is_alive()
    assert failures == []
