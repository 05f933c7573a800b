"""What a schedule does where the clock of its zone is put forward or back."""

from enum import StrEnum


class GapPolicy(StrEnum):
    """For times of day that a clock put forward leaves out."""

    RUN_AFTER = "run_after"
    """Run at the moment of the change; several times left out run once."""

    SKIP = "skip"
    """Do not run."""


class FoldPolicy(StrEnum):
    """For times of day that a clock put back shows twice."""

    FIRST = "first"
    """Run the first time."""

    BOTH = "both"
    """Run both times."""
