"""What a schedule does about slots that were missed, and about runs that are longer than its period."""

from enum import StrEnum


class MisfirePolicy(StrEnum):
    """What becomes of slots that no host fired in time, as after a downtime."""

    LATEST = "latest"
    """The newest one runs, for all of them."""
    CATCH_UP = "catch_up"
    """Each runs, in order, within the bounds of number and age.

    One after the end of the other, unless overlaps are allowed: none is left out while another one runs.
    """
    SKIP = "skip"
    """None of them runs."""


class OverlapPolicy(StrEnum):
    """What becomes of a slot that comes while a run before it has not ended."""

    SKIP = "skip"
    """It is left out, and recorded."""
    QUEUE = "queue"
    """One waits for the end of the run; further ones are left out, and recorded."""
    ALLOW = "allow"
    """It runs beside the other."""
