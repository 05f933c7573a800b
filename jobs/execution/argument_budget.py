"""How many jobs may be claimed next, so that their arguments do not fill the memory."""

from collections.abc import Sequence
from typing import Final

from jobs.snapshot import StartedJob

_FIRST_JOBS: Final = 16
_GROWTH: Final = 8


class ArgumentBudget:
    """Keeps the arguments in hand at about so many bytes, by the sizes of those that were claimed before.

    It begins with 16 jobs and grows eightfold at most from claim to claim. Jobs that suddenly have larger
    arguments can exceed it for one claim.
    """

    def __init__(self, argument_bytes: int) -> None:
        self._left_bytes = argument_bytes
        self._mean_bytes = 1.0
        self._most_jobs = _FIRST_JOBS

    def limit(self, wanted: int) -> int:
        """How many of `wanted` may be claimed now; 0 when what is in hand fills the budget."""
        fitting = int(self._left_bytes / self._mean_bytes)
        return max(0, min(wanted, fitting, self._most_jobs))

    def take(self, jobs: Sequence[StartedJob]) -> None:
        """These were claimed."""
        if not jobs:
            return
        taken_bytes = sum(len(job.arguments) for job in jobs)
        self._left_bytes -= taken_bytes
        self._mean_bytes = max(taken_bytes / len(jobs), 1.0)
        self._most_jobs = max(self._most_jobs, len(jobs) * _GROWTH)

    def give_back(self, job: StartedJob) -> None:
        """It has ended."""
        self._left_bytes += len(job.arguments)
