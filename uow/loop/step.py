"""A store's step as the loops run it: bounded, so that a database that hangs cannot hold up a stop."""

from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from uow.sql.step import run_step

T = TypeVar("T")

STEP_SECONDS: Final = 15.0
"""The longest that one step may take; a database that does not answer by then counts as away."""


async def loop_step(engine: AsyncEngine, step: Callable[[Connection], T]) -> T:
    """As `run_step`; raises TimeoutError after STEP_SECONDS."""
    return await run_step(engine, step, limit_seconds=STEP_SECONDS)
