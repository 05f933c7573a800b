"""Loops run side by side until a stop, or until one of them fails."""

import asyncio

import pytest

from relay.composition.service import run_components


class Loop:
    def __init__(self, *, error: Exception | None = None, at_once: bool = False) -> None:
        self.stopped = asyncio.Event()
        self.ended = False
        self._error = error
        self._at_once = at_once

    async def run(self) -> None:
        if self._error is not None:
            raise self._error
        if not self._at_once:
            await self.stopped.wait()
        self.ended = True

    def stop(self) -> None:
        self.stopped.set()


async def test_all_are_told_to_stop_and_waited_for() -> None:
    loops, stop = [Loop(), Loop()], asyncio.Event()
    running = asyncio.create_task(run_components(loops, stop))
    await asyncio.sleep(0)
    assert not running.done()
    stop.set()
    await running
    assert all(loop.ended for loop in loops)


async def test_one_that_has_nothing_to_do_does_not_end_the_others() -> None:
    loop, stop = Loop(), asyncio.Event()
    running = asyncio.create_task(run_components([Loop(at_once=True), loop], stop))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.done()
    stop.set()
    await running
    assert loop.ended


async def test_one_that_fails_stops_the_others_and_its_error_is_raised_once_they_have_ended() -> None:
    loop = Loop()
    with pytest.raises(OSError, match="broken"):
        await run_components([loop, Loop(error=OSError("broken"))], asyncio.Event())
    assert loop.ended


async def test_cancelling_cancels_all() -> None:
    loop = Loop()
    running = asyncio.create_task(run_components([loop], asyncio.Event()))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not loop.ended
