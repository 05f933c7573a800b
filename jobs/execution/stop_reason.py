"""Why a running attempt is asked to end."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why a running attempt is asked to end; its handler may look at it."""

    CANCEL_REQUESTED = "cancel_requested"
    """Someone asked for the end of the job: it becomes cancelled, however the attempt ends from now on."""
    TIMEOUT = "timeout"
    """The handler took longer than its timeout: the attempt has failed, whatever it still does."""
    SHUTDOWN = "shutdown"
    """The executor stops: the job runs again elsewhere if its handler allows it, and uses up no attempt."""
    LEASE_LOST = "lease_lost"
    """The attempt is not ours any more: nothing of it is recorded."""
