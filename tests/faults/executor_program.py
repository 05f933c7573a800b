"""An executor of jobs in a process of its own, to be killed: `python -m tests.faults.executor_program`.

Its only argument is the JSON of `Part`. It stops at SIGTERM as the command line does.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from jobs import JobContext
from relay.cli.event_loop import run_to_its_end
from relay.cli.stop_signal import stop_on_signal
from tests.faults.freeze import freeze
from tests.support.databases import engine_for
from tests.support.executing import Behaviour, Calls, at_once, executing_app, executing_registry

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a process plays.

    does: how its handlers go on, a name of BEHAVIOURS. frozen_at: a name of `freeze.POINTS`, where the
    process stands still for ever. options: those of its executor.
    """

    url: str
    calls: str
    process: str = "killed"
    does: str = "work"
    frozen_at: str | None = None
    lease_seconds: float = 1
    versions: tuple[int, ...] = (1,)
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """The argument of the program."""
        return json.dumps(asdict(self))


def say(line: str) -> None:
    """Print a line that a test waits for."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def work(context: JobContext) -> None:
    """Take the time that the arguments say, and be done."""
    say("called")
    await asyncio.sleep(context.arguments.get("seconds", 0))


async def hang(context: JobContext) -> None:
    """Never end."""
    say("here")
    await asyncio.Event().wait()


async def ignore(context: JobContext) -> None:
    """Never end, whatever is asked."""
    say("here")
    while True:
        await uncancelled(asyncio.sleep(3600))


async def block(context: JobContext) -> None:
    """Let nothing else happen in this event loop for a while."""
    say("here")
    time.sleep(context.arguments.get("seconds", 0))


async def die(context: JobContext) -> None:
    """Take the whole process along."""
    if context.arguments.get("poison"):
        os.kill(os.getpid(), signal.SIGKILL)


async def linger(context: JobContext) -> None:
    """Wait for a file, and then report progress, whatever is asked meanwhile."""
    say("here")
    while not Path(context.arguments["until"]).exists():
        await uncancelled(asyncio.sleep(0.01))
    while (answer := await uncancelled(context.progress(99))) is None:
        pass
    say(f"progress {answer}")


BEHAVIOURS: dict[str, Behaviour] = {
    each.__name__: each for each in (at_once, work, hang, ignore, block, die, linger)
}


async def uncancelled(work: Awaitable[T]) -> T | None:
    """Its result, or None when it was cancelled; the cancellation is ignored."""
    try:
        return await work
    except asyncio.CancelledError:
        say("cancelled")
        return None


async def _execute(part: Part) -> None:
    registry = executing_registry(
        Calls(Path(part.calls)), part.process, BEHAVIOURS[part.does], versions=part.versions
    )
    async with engine_for(part.url) as engine:
        if part.frozen_at is not None:
            freeze(engine, part.frozen_at, tell=lambda: say("here"))
        app = executing_app(engine, registry, lease_seconds=part.lease_seconds, **part.options)
        with stop_on_signal(lambda number: say(f"stops for {number.name}")) as stop:
            say("runs")
            await app.run_jobs(stop)
        await app.close()


if __name__ == "__main__":
    run_to_its_end(_execute(Part(**json.loads(sys.argv[1]))))
