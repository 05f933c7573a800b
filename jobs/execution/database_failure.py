"""Whether a transactional attempt failed by its database, or by what else its handler did."""

from types import TracebackType

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from jobs.execution.failure import VERDICTS
from uow.explicit_causes import explicit_causes
from uow.sql.fault import is_transient


def is_database_lost(error: BaseException) -> bool:
    """Whether a database that is away or overloaded explains `error`, or what it was raised from.

    A connection that breaks elsewhere, such as in a call over HTTP, is the handler's own failure; and so is
    what the handler makes of an outage in a verdict of its own.
    """
    for cause in explicit_causes(error):
        if isinstance(cause, VERDICTS):
            return False
        if isinstance(cause, PoolTimeoutError):
            return True
        if isinstance(cause, DBAPIError):
            return is_transient(cause)
        # asyncpg leaves a refused connection as the OSError that it is.
        if isinstance(cause, OSError) and _came_through_sqlalchemy(cause.__traceback__):
            return True
    return False


def _came_through_sqlalchemy(frames: TracebackType | None) -> bool:
    while frames is not None:
        if str(frames.tb_frame.f_globals.get("__name__")).startswith("sqlalchemy."):
            return True
        frames = frames.tb_next
    return False
