"""What a schedule should do, found by walking through real time and looking at the wall clock.

It knows nothing of cron, nor of how a zone describes its changes: only what the clock shows at each moment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from uow.ticks import UtcInstant

LEAD = timedelta(hours=30)
"""How long before and after its middle a window is walked: more than a whole day left out."""


@dataclass(frozen=True)
class Window:
    """The time around a change of a zone's clock, walked in steps of a minute (or less)."""

    zone: str
    middle: datetime
    lead: timedelta = LEAD
    step: timedelta = timedelta(minutes=1)

    @property
    def first(self) -> datetime:
        return self.middle - self.lead

    @property
    def last(self) -> datetime:
        return self.middle + self.lead

    def __str__(self) -> str:
        return f"{self.zone}-{self.middle:%Y-%m-%d}"


@cache
def readings(window: Window) -> tuple[tuple[datetime, datetime], ...]:
    """Each moment of the window with what the clock shows then."""
    zone = ZoneInfo(window.zone)
    count = (window.last - window.first) // window.step
    moments = (window.first + number * window.step for number in range(count + 1))
    return tuple((moment, moment.astimezone(zone).replace(tzinfo=None, fold=0)) for moment in moments)


@cache
def changes(window: Window) -> tuple[datetime, ...]:
    """The moments of the window at which the clock jumps."""
    steps = pairwise(readings(window))
    return tuple(moment for (_, before), (moment, after) in steps if after - before != window.step)


def due(
    window: Window,
    named: Callable[[datetime], bool],
    *,
    real_time: bool,
    run_after: bool,
    both: bool,
) -> list[UtcInstant]:
    """The moments after the window's first at which an expression is due that names these readings."""
    return [UtcInstant.from_datetime(at) for at in _due(window, named, real_time, run_after, both)]


def _due(
    window: Window, named: Callable[[datetime], bool], real_time: bool, run_after: bool, both: bool
) -> Iterator[datetime]:
    furthest: datetime | None = None
    for moment, wall in readings(window):
        if furthest is None:
            furthest = wall
            continue
        seen_before = wall <= furthest
        left_out = _between(furthest, wall, window.step)
        furthest = max(furthest, wall)
        on_time = named(wall) and (real_time or both or not seen_before)
        late = run_after and not real_time and any(named(skipped) for skipped in left_out)
        if on_time or late:
            yield moment


def _between(before: datetime, after: datetime, step: timedelta) -> Iterator[datetime]:
    before += step
    while before < after:
        yield before
        before += step


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


_NOON = "T12:00"
CHANGES = tuple(
    Window(zone, utc(day + _NOON))
    for zone, *days in (
        ("Europe/Berlin", "2026-03-29", "2026-10-25"),
        ("America/New_York", "2026-03-08", "2026-11-01"),
        ("Australia/Lord_Howe", "2026-04-05", "2026-10-04"),
        ("Pacific/Apia", "2011-12-30", "2012-04-01"),
        ("Pacific/Kwajalein", "1993-08-21"),
        ("Africa/Casablanca", "2022-03-27", "2022-05-08"),
        ("Asia/Gaza", "2022-03-27", "2022-10-29"),
        ("Antarctica/Troll", "2025-03-30", "2025-10-26"),
        ("Asia/Kathmandu", "1986-01-01"),
        ("Europe/Dublin", "2025-03-30", "2025-10-26"),
        ("America/Caracas", "2007-12-09", "2016-05-01"),
        ("Asia/Pyongyang", "2015-08-15", "2018-05-05"),
        ("Pacific/Chatham", "2025-04-06", "2025-09-28"),
        ("America/Santiago", "2025-04-06", "2025-09-07"),
        ("America/Sao_Paulo", "2018-11-04", "2019-02-17"),
        ("America/Havana", "2025-03-09", "2025-11-02"),
        ("Europe/Istanbul", "2016-03-27"),
    )
    for day in days
)
"""Changes of half an hour, of two hours, of a whole day, at midnight, back for a summer, of a zone's rule."""
