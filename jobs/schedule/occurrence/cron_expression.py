"""A cron expression as a value: which readings of a wall clock it names."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from jobs.schedule.errors import CronError
from jobs.schedule.occurrence import cron_field
from jobs.schedule.occurrence.cron_dialect import read_cron
from uow.ticks import UNIX_EPOCH_TICKS, UtcInstant

if TYPE_CHECKING:
    from jobs.schedule.occurrence.wall_pattern import WallPattern

_BEFORE_ALL: Final = datetime.fromisoformat("1969-12-31T23:59:59")
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A checked cron expression, equal to another by `text`, which is kept in capitals with single blanks.

    follows_real_time: minute or hour begins with `*`, so it names every real moment at which the clock shows
    such a time, and clock changes neither lose nor repeat one. Built directly, an expression whose years
    are over is taken, as one that was stored may be; `parse` refuses it. Raises CronError naming the field
    and the rule.
    """

    text: str
    follows_real_time: bool = field(init=False, compare=False)
    _patterns: tuple["WallPattern", ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Only now: a process without cron expressions loads no library for them.
        from jobs.schedule.occurrence.wall_pattern import WallPattern  # noqa: PLC0415

        reading = read_cron(self.text)
        object.__setattr__(self, "text", reading.text)
        object.__setattr__(self, "follows_real_time", reading.follows_real_time)
        patterns = tuple(WallPattern(text) for text in reading.alternatives)
        for pattern in patterns:
            if pattern.next_after(_BEFORE_ALL) is None:
                rule = "names days that never come in these months and years"
                raise CronError(self.text, _day_field(pattern), rule)
        object.__setattr__(self, "_patterns", patterns)

    @classmethod
    def parse(cls, text: str, *, after: UtcInstant | None = None) -> Self:
        """The expression. Raises CronError also when none of it comes later than `after` (now by default)."""
        expression = cls(text)
        ticks = (UtcInstant.now() if after is None else after).ticks
        moment = UtcInstant(max(ticks, UNIX_EPOCH_TICKS)).to_datetime().replace(tzinfo=None)
        # A day is left for the zone, which is not known here.
        if expression.next_wall(moment - _DAY) is None:
            raise CronError(expression.text, cron_field.YEAR.name, "lies wholly in the past")
        return expression

    def next_wall(self, wall: datetime) -> datetime | None:
        """The first reading later than `wall`, of a clock that runs evenly; None when none comes any more."""
        found = [reading for pattern in self._patterns if (reading := pattern.next_after(wall)) is not None]
        return min(found, default=None)


def _day_field(pattern: "WallPattern") -> str:
    weekday = pattern.text.split()[5]
    return cron_field.DAY_OF_MONTH.name if weekday == "*" else cron_field.DAY_OF_WEEK.name
