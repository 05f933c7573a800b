"""Points of a transaction of jobs at which a process stands still, to be killed there."""

import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine

CLAIMED: Final = "claimed"
"""Jobs have been claimed: that is committed, and nobody knows it yet."""
ENDING: Final = "ending"
"""Attempts have ended and their jobs are final or queued again: that is written, but not committed."""
ENDED: Final = "ended"
"""The same is committed, and nobody knows it yet."""

_REACHED: Final = "tests.reached"


def freeze(engine: AsyncEngine, point: str, *, tell: Callable[[], None]) -> None:
    """Where a transaction first comes to this point, call `tell` and block the event loop for ever.

    Leases are renewed on, since their thread has an engine of its own.
    """

    def look(connection: Connection, cursor: Any, statement: str, *rest: Any) -> None:
        inserts = "INSERT INTO jobs_attempt" in statement
        updates = "UPDATE" in statement and "jobs_attempt" in statement and not inserts
        if inserts if point == CLAIMED else updates:
            connection.info[_REACHED] = True

    def before_commit(connection: Connection) -> None:
        if point == ENDING and _REACHED in connection.info:
            stand_still()

    def after_commit(_connection: Any, record: Any) -> None:
        if _REACHED in record.info:
            stand_still()

    def stand_still() -> None:
        tell()
        time.sleep(3600)
        raise AssertionError("not killed")

    event.listen(engine.sync_engine, "before_cursor_execute", look)
    event.listen(engine.sync_engine, "commit", before_commit)
    event.listen(engine.sync_engine, "checkin", after_commit)
