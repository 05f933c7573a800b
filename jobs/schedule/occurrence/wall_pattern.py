"""The one import of croniter: the readings of a wall clock that a pattern names, in order."""

import copy
from datetime import MAXYEAR, datetime
from typing import Final

from croniter import CroniterBadDateError, croniter

_START: Final = datetime.fromisoformat("1970-01-01")
_NUMBERED_YEARS: Final = 130
# No day of the calendar is rarer than the 29th of February on a given weekday, up to 40 years apart.
_YEARS_APART: Final = 50


class WallPattern:
    """A pattern of seven fields, seconds first, that croniter reads without any of its own liberties.

    croniter is never shown a zone: it knows one clock that runs evenly, and clock changes are ours.
    """

    __slots__ = ("_engine", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._engine = croniter(
            text,
            _START,
            max_years_between_matches=_YEARS_APART if text.endswith("*") else _NUMBERED_YEARS,
            second_at_beginning=True,
        )

    def next_after(self, wall: datetime) -> datetime | None:
        """The first reading later than `wall`, of whole seconds; None when none comes by year 9999."""
        # A croniter remembers where it stands, so each search gets its own: threads may share a pattern.
        search = copy.copy(self._engine)
        try:
            found: datetime = search.get_next(datetime, start_time=wall)
        except (CroniterBadDateError, OverflowError):
            return None
        except ValueError:
            if wall.year < MAXYEAR - _YEARS_APART:
                raise
            return None
        return found
