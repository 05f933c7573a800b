"""Programs of the test suite as processes of their own, to be killed."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def program(module: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m module arguments` with its output piped; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if process.stdout is not None:
            await process.stdout.read()


async def said(process: asyncio.subprocess.Process, line: str, *, timeout: float = 30.0) -> None:
    """Wait until the program has printed this line."""
    assert process.stdout is not None
    async with asyncio.timeout(timeout):
        while (found := (await process.stdout.readline()).decode()) != f"{line}\n":
            assert found, f"the program ended without saying {line!r}"


async def kill(process: asyncio.subprocess.Process) -> None:
    """SIGKILL: it cannot clean up anything."""
    process.kill()
    await process.wait()
