"""A host of schedules in a process of its own, to be killed: `python -m tests.faults.schedule_program`.

It runs their jobs, too. Its only argument is the JSON of `Part`. It stops at SIGTERM as the command line
does.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

from jobs.schedule.hosting.context import ScheduleContext
from relay.cli.event_loop import run_to_its_end
from relay.cli.stop_signal import stop_on_signal
from tests.faults.freeze import freeze
from tests.support.databases import engine_for
from tests.support.executing import Calls
from tests.support.process import program
from tests.support.scheduling import Behaviour, Scheduling, at_once, schedule_module, scheduling_app


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a process plays.

    does: what its executors do once their effect is committed, a name of BEHAVIOURS. frozen_at: a name of
    `freeze.POINTS`, where the process stands still, or only its host and until the file `until` is there.
    ahead_seconds: how far its clock is ahead. lease_seconds: of jobs. options: those of its host.
    """

    url: str
    calls: str
    declared: dict[str, Any]
    process: str = "killed"
    does: str = "at_once"
    frozen_at: str | None = None
    until: str | None = None
    ahead_seconds: float = 0
    lease_seconds: float = 1
    options: dict[str, Any] = field(default_factory=dict)


def say(line: str) -> None:
    """Print a line that a test waits for."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def hang(context: ScheduleContext) -> None:
    """Never end."""
    say("here")
    await asyncio.Event().wait()


async def hang_if_long(context: ScheduleContext) -> None:
    """Never end when the schedule is called so."""
    if context.name == "long":
        await hang(context)


async def hang_at_third(context: ScheduleContext) -> None:
    """Never end when it is the third run of this process."""
    if next(_CALLS) == 3:
        await hang(context)


async def take_a_second(context: ScheduleContext) -> None:
    """Run on for a while."""
    await asyncio.sleep(1)


_CALLS = count(1)
BEHAVIOURS: dict[str, Behaviour] = {
    each.__name__: each for each in (at_once, hang, hang_if_long, hang_at_third, take_a_second)
}


@contextlib.contextmanager
def clock_ahead(seconds: float) -> Iterator[None]:
    """Let all that ask this machine for the time be told another; the databases do not ask Python."""
    time_ns = time.time_ns

    def ahead_ns() -> int:
        return time_ns() + round(seconds * 1e9)

    def ahead() -> float:
        return ahead_ns() / 1e9

    with mock.patch.object(time, "time_ns", ahead_ns), mock.patch.object(time, "time", ahead):
        yield


async def _host(part: Part) -> None:
    module = schedule_module(part.declared, Calls(Path(part.calls)), part.process, BEHAVIOURS[part.does])
    async with engine_for(part.url) as engine:
        if part.frozen_at is not None:
            until = None if part.until is None else Path(part.until)
            freeze(engine, part.frozen_at, tell=lambda: say("here"), until=until)
        app = scheduling_app(engine, module, lease_seconds=part.lease_seconds, **part.options)
        with stop_on_signal(lambda number: say(f"stops for {number.name}")) as stop:
            say("runs")
            await app.run_jobs(stop)
        await app.close()


@contextlib.asynccontextmanager
async def host_process(scheduling: Scheduling, **part: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process that plays this part on the database of a test; killed at the end if it still runs."""
    declared = {name: dict(fields) for name, fields in scheduling.declared.items()}
    played = Part(url=scheduling.url, calls=str(scheduling.calls.file), declared=declared, **part)
    async with program("tests.faults.schedule_program", json.dumps(asdict(played))) as process:
        yield process


if __name__ == "__main__":
    given = Part(**json.loads(sys.argv[1]))
    with clock_ahead(given.ahead_seconds):
        run_to_its_end(_host(given))
