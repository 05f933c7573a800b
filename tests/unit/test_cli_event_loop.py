"""A command ends, whatever tasks of the application do."""

import asyncio
import subprocess
import sys

import pytest

from relay.cli.event_loop import run_to_its_end

_STUBBORN = """
import asyncio
from relay.cli.event_loop import run_to_its_end

async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def work():
    global task
    task = asyncio.create_task(stubborn(), name="the stubborn one")
    await asyncio.sleep(0)
    return 7

raise SystemExit(run_to_its_end(work(), patience_seconds=0.05))
"""


def test_a_task_that_ignores_its_cancellation_is_named_and_left_behind() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _STUBBORN], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 7
    assert "left behind, since it ignores its cancellation: the stubborn one" in ended.stderr


def test_tasks_that_can_be_cancelled_are_waited_for_and_errors_go_through() -> None:
    tidied: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append("up")

    async def work() -> None:
        tidying = asyncio.create_task(tidy())
        await asyncio.sleep(0)
        raise ValueError(f"{tidying.get_name()} runs")

    with pytest.raises(ValueError, match="runs"):
        run_to_its_end(work())
    assert tidied == ["up"]
