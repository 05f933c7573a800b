"""Why an attempt ended without success, as stored and listed."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Short, stable words for operators and filters."""

    HANDLER_ERROR = "handler_error"
    """The handler, or the commit of what it wrote, raised."""
    TIMEOUT = "timeout"
    """The handler took longer than the processing timeout."""
    RETRY_AFTER = "retry_after"
    """The handler asked to be called later."""
    REJECTED = "rejected"
    """The handler said that no retry can help."""
    CONTRACT = "contract"
    """The message cannot be decoded here, or this consumer has no handler for it."""
    PROCESS_DIED = "process_died"
    """The process ended during each of the last attempts."""
    DATABASE_LOST = "database_lost"
    """The connection was lost during the commit, which did not happen."""
