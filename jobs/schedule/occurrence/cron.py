"""Occurrences by a cron expression on the wall clock of a time zone."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self, TypeVar

from jobs.schedule.errors import ScheduleError, shown
from jobs.schedule.occurrence.cron_expression import CronExpression
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from jobs.schedule.occurrence.time_zone import ClockChange, TimeZone
from uow.ticks import UNIX_EPOCH_TICKS, UtcInstant

_SECOND: Final = timedelta(seconds=1)
_Policy = TypeVar("_Policy", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """When a cron expression is due in a time zone; make it with `parse`.

    The times of day it names are due once, whatever the clock does: `gap` says what becomes of those that a
    clock put forward leaves out, `fold` of those that a clock put back shows twice. An expression whose
    minute or hour begins with `*` follows real time instead, and neither policy touches it.
    """

    expression: CronExpression
    time_zone: TimeZone
    gap: GapPolicy = GapPolicy.RUN_AFTER
    fold: FoldPolicy = FoldPolicy.FIRST

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", _policy("gap", GapPolicy, self.gap))
        object.__setattr__(self, "fold", _policy("fold", FoldPolicy, self.fold))

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        time_zone: str = "UTC",
        gap: GapPolicy = GapPolicy.RUN_AFTER,
        fold: FoldPolicy = FoldPolicy.FIRST,
        after: UtcInstant | None = None,
    ) -> Self:
        """The schedule. Raises ScheduleError for what is not taken; CronError names the field and the rule.

        after: nothing to come later than this (now by default) is refused too.
        """
        expression = CronExpression.parse(text, after=after)
        return cls(expression=expression, time_zone=TimeZone(time_zone), gap=gap, fold=fold)

    def next_after(self, previous: UtcInstant) -> UtcInstant | None:
        """The first occurrence later than `previous`, whatever way one came there; None when there is none.

        Occurrences are whole seconds from 1970 to the end of year 9999.
        """
        ticks = max(previous.ticks, UNIX_EPOCH_TICKS - 1)
        try:
            moment = self._next(UtcInstant(ticks).to_datetime().replace(microsecond=0))
        except OverflowError:
            # A zone's clock at the very end of time; nothing later can be told from it.
            return None
        return None if moment is None else UtcInstant.from_datetime(moment)

    def latest_until(self, previous: UtcInstant, until: UtcInstant) -> UtcInstant | None:
        """The newest occurrence later than `previous` and not later than `until`, None when there is none."""
        newest, high = None, until.ticks
        low = self._within(previous, until)
        while low is not None:
            # Leaping to the middle either finds a later one or halves what is left.
            newest, middle = low, (low.ticks + high) // 2
            low = self._within(UtcInstant(middle), until)
            if low is None:
                high = middle
                low = self._within(newest, until)
        return newest

    def describe(self) -> str:
        """Like `cron '30 2 * * *' in Europe/Berlin, gap run_after, fold first`."""
        return f"cron {self.expression.text!r} in {self.time_zone.name}, gap {self.gap}, fold {self.fold}"

    def _within(self, previous: UtcInstant, until: UtcInstant) -> UtcInstant | None:
        found = self.next_after(previous)
        return found if found is not None and found <= until else None

    @property
    def _runs_twice(self) -> bool:
        return self.expression.follows_real_time or self.fold is FoldPolicy.BOTH

    @property
    def _runs_after_gap(self) -> bool:
        return not self.expression.follows_real_time and self.gap is GapPolicy.RUN_AFTER

    def _next(self, moment: datetime) -> datetime | None:
        """The first occurrence later than `moment`; both are UTC and of whole seconds."""
        wall = self.time_zone.local(moment)
        reading = self.expression.next_wall(wall)
        change = self._coming_repeat(wall, moment)
        if change is not None and (reading is None or reading >= change.before):
            # Nothing more comes before the clock is put back, and then readings already passed come again.
            reading = self.expression.next_wall(change.after - _SECOND)
        return self._moment_of(reading, moment)

    def _coming_repeat(self, wall: datetime, moment: datetime) -> ClockChange | None:
        """The change after `moment` by which `wall` will be shown again, if occurrences are repeated."""
        change = self.time_zone.change_at(wall) if self._runs_twice else None
        return change if change is not None and moment < change.moment else None

    def _moment_of(self, reading: datetime | None, moment: datetime) -> datetime | None:
        """When this reading of the clock, or one that follows it, is due later than `moment`."""
        zone = self.time_zone
        while reading is not None:
            change, first = zone.change_at(reading), zone.first_moment(reading)
            if change is None or (change.repeats and first > moment):
                return first
            if change.repeats and self._runs_twice:
                return zone.second_moment(reading)
            if not change.repeats and self._runs_after_gap:
                return change.moment
            # Leap over all readings of this kind at once: a zone may leave out a whole day.
            beyond = change.before if change.repeats else change.after
            reading = self.expression.next_wall(beyond - _SECOND)
        return None


def _policy(name: str, kind: type[_Policy], value: str) -> _Policy:
    if value not in list(kind):
        raise ScheduleError(f"{name} policy", f"must be one of {', '.join(kind)}, not {shown(value)}")
    return kind(value)
