"""Why a schedule runs."""

from enum import StrEnum


class Cause(StrEnum):
    """Why a schedule runs."""

    SCHEDULE = "schedule"
    """Its slot has come."""
    MISFIRE = "misfire"
    """Its slot was missed, and its misfire policy makes up for it."""
    MANUAL = "manual"
    """Someone asked for it."""
    RETRY = "retry"
    """Another attempt at a run before it."""
