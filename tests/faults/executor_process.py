"""Starting `executor_program` on the database of a test."""

import contextlib
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from typing import Any

from tests.faults.executor_program import Part
from tests.support.executing import Executing
from tests.support.process import program


@contextlib.asynccontextmanager
async def executor_process(executing: Executing, **part: Any) -> AsyncIterator[Process]:
    """The process that plays this part; killed at the end if it still runs."""
    played = Part(url=executing.url, calls=str(executing.calls.file), **part)
    async with program("tests.faults.executor_program", played.to_json()) as process:
        yield process
