"""Runs loops side by side until they are told to stop, or one of them ends."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol


class Component(Protocol):
    """A loop of the relay: `run` returns after `stop` was called, when its work is put away."""

    async def run(self) -> None:
        """Work until stopped."""

    def stop(self) -> None:
        """Ask it to end; returns at once."""


async def run_components(components: Sequence[Component], stop: asyncio.Event) -> None:
    """Run all until `stop` is set, then ask all to stop and wait for them.

    A component that raises stops the others too; the first error is raised once all have ended. One that
    returns by itself has nothing to do here. Cancelling cancels all.
    """
    tasks = [asyncio.create_task(component.run()) for component in components]
    stopping = asyncio.create_task(stop.wait())
    try:
        await _until_stop_or_error(tasks, stopping)
        for component in components:
            component.stop()
        await asyncio.wait(tasks)
    finally:
        stopping.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        task.result()


async def _until_stop_or_error(tasks: Sequence[asyncio.Task[None]], stopping: asyncio.Task[bool]) -> None:
    pending: set[asyncio.Task[Any]] = set(tasks)
    while pending and not stopping.done():
        done, _ = await asyncio.wait({*pending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        pending -= done
        if any(task.cancelled() or task.exception() for task in done):
            return
