"""What the executor of a schedule is given."""

from collections.abc import Callable
from uuid import UUID

from jobs.answer import ProgressAnswer
from jobs.execution.context import JobContext
from jobs.execution.stop_reason import StopReason
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.run_identity import run_id_of
from uow.ticks import UtcInstant
from uow.unit import SelfManagedUnitOfWork


class ScheduleContext:
    """One run of a schedule, as its executor sees it; made by the host.

    job: the attempt at the job of this run.
    """

    def __init__(self, job: JobContext, unit_of_work: Callable[[], SelfManagedUnitOfWork]) -> None:
        self.job = job
        self._unit_of_work = unit_of_work
        self._name: str = job.arguments["schedule"]
        self._nominal = UtcInstant.parse(job.arguments["nominal"])
        self._cause = Cause(job.arguments["cause"])

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self._name

    @property
    def nominal(self) -> UtcInstant:
        """The slot that this run is for, however late it is; of a manual run the moment it was asked for."""
        return self._nominal

    @property
    def cause(self) -> Cause:
        """Why it runs; RETRY for every attempt after the first."""
        return self._cause if self.job.attempt == 1 else Cause.RETRY

    @property
    def run_id(self) -> UUID:
        """The identity of the run: the same for all attempts at one slot."""
        return run_id_of(self.job.job_id)

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self.job.attempt

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run is asked to end; None while it may go on."""
        return self.job.stop_reason

    async def progress(self, percent: int, message: str | None = None) -> ProgressAnswer:
        """Record how far it is; see JobContext.progress."""
        return await self.job.progress(percent, message)

    def unit_of_work(self) -> SelfManagedUnitOfWork:
        """A new unit of work on the application's database."""
        return self._unit_of_work()
