"""A time zone by its IANA name, and what its wall clock leaves out or shows twice."""

import re
import zoneinfo
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from jobs.schedule.errors import ScheduleError, shown

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", re.ASCII)
_NAME_LENGTH: Final = 64
# What these mean differs from machine to machine, and those of `right` count leap seconds.
_NO_ZONES: Final = frozenset({"localtime", "posixrules", "Factory", "posix", "right"})
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """One change of a zone's clock: at `moment` (UTC) the wall clock goes from `before` to `after`.

    Put forward, it leaves out the readings from `before` up to `after`; put back, it shows those from
    `after` up to `before` twice.
    """

    moment: datetime
    before: datetime
    after: datetime

    @property
    def repeats(self) -> bool:
        """Whether the clock is put back."""
        return self.after < self.before


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A zone of the IANA database by `name`, like `Europe/Berlin` or `UTC`; equal by name.

    Raises ScheduleError for a name that the database of this machine lacks.
    """

    name: str
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", _zone(self.name))

    def local(self, moment: datetime) -> datetime:
        """What the wall clock shows at this aware `moment`, without a zone; `fold` is 1 the second time."""
        return moment.astimezone(self._zone).replace(tzinfo=None)

    def first_moment(self, wall: datetime) -> datetime:
        """The moment (UTC) at which the clock shows `wall`, the first one when there are two."""
        return self._moment(wall, fold=0)

    def second_moment(self, wall: datetime) -> datetime:
        """The later moment (UTC) at which the clock shows `wall`, the only one when there is one."""
        return self._moment(wall, fold=1)

    def change_at(self, wall: datetime) -> ClockChange | None:
        """The change that leaves `wall` out or shows it twice; None for one that is shown exactly once."""
        earlier, later = sorted((self._moment(wall, fold=0), self._moment(wall, fold=1)))
        if earlier == later:
            return None
        # The clock goes one way before the change and another after it, so the change lies between the two.
        first_offset = self._offset(earlier)
        while later - earlier > _SECOND:
            middle = earlier + (later - earlier) // _SECOND // 2 * _SECOND
            if self._offset(middle) == first_offset:
                earlier = middle
            else:
                later = middle
        change = later.replace(tzinfo=None)
        return ClockChange(later, change + first_offset, change + self._offset(later))

    def _moment(self, wall: datetime, *, fold: int) -> datetime:
        return wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC)

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self._zone).utcoffset() or timedelta(0)


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    if not isinstance(name, str) or len(name) > _NAME_LENGTH or _NAME.fullmatch(name) is None:
        raise ScheduleError("time zone", f"must be an IANA name like Europe/Berlin, not {shown(name)}")
    if name.partition("/")[0] in _NO_ZONES:
        raise ScheduleError("time zone", f"{name!r} depends on the machine; name the zone itself")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError) as error:
        rule = (
            f"{name!r} is not in the time zone database of this machine; check the name, "
            "or install tzdata where the system has no database"
        )
        raise ScheduleError("time zone", rule) from error
