"""One field of a cron expression that takes numbers, names, ranges and steps."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from jobs.schedule.errors import CronError, shown

_ITEM: Final = re.compile(
    r"(?P<low>\*|[0-9]{1,4}|[A-Z]{3})(?:-(?P<high>[0-9]{1,4}|[A-Z]{3}))?(?:/(?P<step>[0-9]{1,4}))?", re.ASCII
)
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronField:
    """What a field takes: numbers from `lowest` to `highest` for `size` different values.

    origin: the number by which the first value is passed on, where that is not how it is written.
    backwards: whether a range may run over the end and go on at the beginning, as in 22-2.
    """

    name: str
    lowest: int
    highest: int
    size: int
    origin: int
    names: Mapping[str, int] = field(default_factory=dict)
    backwards: bool = True

    @property
    def last(self) -> int:
        """The number of the last value."""
        return self.lowest + self.size - 1


def _numbered(names: tuple[str, ...], first: int) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(names, first)}


SECOND: Final = CronField(name="second", lowest=0, highest=59, size=60, origin=0)
MINUTE: Final = CronField(name="minute", lowest=0, highest=59, size=60, origin=0)
HOUR: Final = CronField(name="hour", lowest=0, highest=23, size=24, origin=0)
DAY_OF_MONTH: Final = CronField(name="day of month", lowest=1, highest=31, size=31, origin=1)
MONTH: Final = CronField(
    name="month",
    lowest=1,
    highest=12,
    size=12,
    origin=1,
    names=_numbered(_MONTHS, 1),
)
DAY_OF_WEEK: Final = CronField(
    name="day of week",
    lowest=0,
    highest=7,
    size=7,
    origin=0,
    names=_numbered(_WEEKDAYS, 0),
)
"""0 and 7 are Sunday, as in crontab."""

QUARTZ_DAY_OF_WEEK: Final = CronField(
    name="day of week",
    lowest=1,
    highest=7,
    size=7,
    origin=0,
    names=_numbered(_WEEKDAYS, 1),
)
"""1 is Sunday, as in Quartz; passed on as in crontab."""

YEAR: Final = CronField(name="year", lowest=1970, highest=2099, size=130, origin=1970, backwards=False)


@dataclass(frozen=True, slots=True)
class FieldText:
    """What stands in one field of one expression, in capitals."""

    expression: str
    field: CronField
    text: str

    def refused(self, rule: str) -> CronError:
        """The error to raise for it."""
        return CronError(self.expression, self.field.name, rule)

    def number(self, word: str) -> int:
        """The number that a word of digits or letters stands for, as it is written. Raises CronError."""
        field = self.field
        if not word.isdigit():
            if word not in field.names:
                known = f"not one of {', '.join(field.names)}" if field.names else "not a number"
                raise self.refused(f"{shown(word)} is {known}")
            return field.names[word]
        if not field.lowest <= int(word) <= field.highest:
            raise self.refused(f"{word} is not between {field.lowest} and {field.highest}")
        return int(word)

    def passed_on(self, number: int) -> int:
        """The value as it is passed on for a number as it is written, also for one run over the end."""
        return (number - self.field.lowest) % self.field.size + self.field.origin

    def values(self) -> frozenset[int]:
        """The values, as passed on, of a list of numbers, names, ranges and steps. Raises CronError."""
        found: set[int] = set()
        for item in self.text.split(","):
            match = _ITEM.fullmatch(item)
            if match is None:
                raise self.refused(f"{shown(item)} is not a value, a range or a step that this field takes")
            found.update(self.passed_on(number) for number in self._span(item, **match.groupdict()))
        return frozenset(found)

    def _span(self, item: str, low: str, high: str | None, step: str | None) -> range:
        if low == "*":
            if high is not None:
                raise self.refused(f"{item!r} is a range that begins with *")
            if step is None and item != self.text:
                raise self.refused("* stands alone, not in a list")
            first, last = self.field.lowest, self.field.last
        else:
            first = self.number(low)
            last = self._end(item, first, high, step)
        return range(first, last + 1, 1 if step is None else self._step(int(step)))

    def _end(self, item: str, first: int, high: str | None, step: str | None) -> int:
        if high is None and step is None:
            return first
        if high is None:
            if first >= self.field.last:
                raise self.refused(f"{item!r} begins at the last value and reaches no other; write {first}")
            return self.field.last
        last = self.number(high)
        if last >= first:
            return last
        if step is not None or not self.field.backwards:
            raise self.refused(f"{item!r} is a range that runs backwards")
        return last + self.field.size

    def _step(self, step: int) -> int:
        if not 1 <= step < self.field.size:
            raise self.refused(f"a step of {step} is not between 1 and {self.field.size - 1}")
        return step
