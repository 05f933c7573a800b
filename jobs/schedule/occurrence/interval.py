"""Occurrences at a fixed distance from one another."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from jobs.schedule.errors import ScheduleError
from uow.ticks import MAXIMUM_TICKS, TICKS_PER_MICROSECOND, TICKS_PER_SECOND, UtcInstant

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """Every `period_ticks` (of 100 ns, at least 1) of real time, counted from the stored occurrence before.

    Clock changes and time zones mean nothing to it. Raises ScheduleError for a period that is not positive
    or longer than all time there is.
    """

    period_ticks: int

    def __post_init__(self) -> None:
        if type(self.period_ticks) is not int or not 0 < self.period_ticks <= MAXIMUM_TICKS:
            rule = f"must be a whole number of ticks, 1 to {MAXIMUM_TICKS}, not {self.period_ticks!r}"
            raise ScheduleError("interval", rule)

    @classmethod
    def every(cls, period: timedelta) -> Self:
        """The schedule with this period, exact to the microsecond. Raises ScheduleError unless positive."""
        if not isinstance(period, timedelta) or period <= timedelta(0):
            raise ScheduleError("interval", f"must be a positive timedelta, not {period!r}")
        return cls(period // _MICROSECOND * TICKS_PER_MICROSECOND)

    def next_after(self, previous: UtcInstant) -> UtcInstant | None:
        """`previous` and one period; None past the end of year 9999."""
        ticks = previous.ticks + self.period_ticks
        return UtcInstant(ticks) if ticks <= MAXIMUM_TICKS else None

    def latest_until(self, previous: UtcInstant, until: UtcInstant) -> UtcInstant | None:
        """`previous` and as many whole periods as end by `until`; None when not even one does."""
        periods = (until.ticks - previous.ticks) // self.period_ticks
        return UtcInstant(previous.ticks + periods * self.period_ticks) if periods > 0 else None

    def describe(self) -> str:
        """Like `every 90 s`; with a fraction only when there is one."""
        seconds, fraction = divmod(self.period_ticks, TICKS_PER_SECOND)
        return f"every {f'{seconds}.{fraction:07d}'.rstrip('0').rstrip('.')} s"
