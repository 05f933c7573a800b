"""Points of a transaction at which a process stands still, to be killed there."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only

CLAIMED: Final = "claimed"
"""Jobs have been claimed: that is committed, and nobody knows it yet."""
ENDING: Final = "ending"
"""Attempts have ended and their jobs are final or queued again: that is written, but not committed."""
ENDED: Final = "ended"
"""The same is committed, and nobody knows it yet."""
FOUND: Final = "found"
"""A host has looked for slots that are due, and has no transaction open."""
TAKEN: Final = "taken"
"""A schedule has moved on by a slot whose job is not written yet; nothing is committed."""
STAGED: Final = "staged"
"""The job and the run of a slot are written; nothing is committed."""
FIRED: Final = "fired"
"""The same is committed, and nobody knows it yet."""

_REACHED: Final = "tests.reached"


class _Moment(Enum):
    """When to stand still in the transaction that has the statement."""

    BEFORE_STATEMENT = auto()
    BEFORE_COMMIT = auto()
    AFTER_COMMIT = auto()


@dataclass(frozen=True)
class _Point:
    """A statement, by its text, and the moment at or after it."""

    statement: re.Pattern[str]
    moment: _Moment


_CLAIM: Final = re.compile(r"INSERT INTO jobs_attempt\b")
_END: Final = re.compile(r"^(?!.*INSERT INTO jobs_attempt\b).*UPDATE.*\bjobs_attempt\b", re.DOTALL)
_LOOK: Final = re.compile(r"^SELECT.*\bnext_fire_ticks <=", re.DOTALL)
_STAGING: Final = re.compile(r"INSERT INTO jobs_job\b")
_RECORD: Final = re.compile(r"INSERT INTO jobs_schedule_run\b")

POINTS: Final = {
    CLAIMED: _Point(_CLAIM, _Moment.AFTER_COMMIT),
    ENDING: _Point(_END, _Moment.BEFORE_COMMIT),
    ENDED: _Point(_END, _Moment.AFTER_COMMIT),
    FOUND: _Point(_LOOK, _Moment.AFTER_COMMIT),
    TAKEN: _Point(_STAGING, _Moment.BEFORE_STATEMENT),
    STAGED: _Point(_RECORD, _Moment.BEFORE_COMMIT),
    FIRED: _Point(_RECORD, _Moment.AFTER_COMMIT),
}


def freeze(engine: AsyncEngine, point: str, *, tell: Callable[[], None], until: Path | None = None) -> None:
    """Where a transaction first comes to this point, call `tell` and block the event loop for ever.

    Leases are renewed on, since their thread has an engine of its own. With `until` only the task stands
    still, until that file is there: whatever else the process does goes on.
    """
    statement, moment = POINTS[point].statement, POINTS[point].moment
    told = False

    def look(connection: Connection, cursor: Any, text: str, *rest: Any) -> None:
        if statement.search(text):
            connection.info[_REACHED] = True
            if moment is _Moment.BEFORE_STATEMENT:
                stand_still()

    def before_commit(connection: Connection) -> None:
        if moment is _Moment.BEFORE_COMMIT and _REACHED in connection.info:
            stand_still()

    def after_commit(_connection: Any, record: Any) -> None:
        if moment is _Moment.AFTER_COMMIT and _REACHED in record.info:
            stand_still()

    def stand_still() -> None:
        nonlocal told
        if told:
            return
        told = True
        tell()
        if until is not None:
            await_only(_exists(until))
            return
        time.sleep(3600)
        raise AssertionError("not killed")

    event.listen(engine.sync_engine, "before_cursor_execute", look)
    event.listen(engine.sync_engine, "commit", before_commit)
    event.listen(engine.sync_engine, "checkin", after_commit)


async def _exists(file: Path) -> None:
    while not file.exists():
        await asyncio.sleep(0.01)
