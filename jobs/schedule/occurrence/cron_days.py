"""The two day fields of a cron expression, which take more than numbers."""

import re
from typing import Final

from jobs.schedule.errors import CronError, shown
from jobs.schedule.occurrence.cron_field import FieldText

_EVERY: Final = frozenset({"*", "*/1", "?"})
_NEAREST: Final = re.compile(r"([0-9]{1,2})W", re.ASCII)
_NTH: Final = re.compile(r"([0-9]|[A-Z]{3})#([0-9]{1,4})", re.ASCII)
_LAST: Final = re.compile(r"([0-9]|[A-Z]{3})L|L([0-9])", re.ASCII)


def restricts(text: str) -> bool:
    """Whether a day field says more than "every day"."""
    return text not in _EVERY


def day_of_month(source: FieldText) -> str:
    """A day-of-month field as croniter reads it: `*`, a list of days with or without `l`, or `15w`.

    Raises CronError.
    """
    text = source.text
    if not restricts(text):
        return "*"
    if "W" in text:
        return _nearest_weekday(source)
    if re.search(r"L[-+]|[-/]L|L/", text):
        raise source.refused("days counted from the last (L-n) are not taken; only L itself is")
    items = text.split(",")
    numbers = [item for item in items if item != "L"]
    if not numbers:
        return "l"
    days = FieldText(source.expression, source.field, ",".join(numbers)).values()
    return ",".join([*map(str, sorted(days)), *(["l"] if len(numbers) < len(items) else [])])


def day_of_week(source: FieldText) -> str:
    """A day-of-week field as croniter reads it, with 0 for Sunday: `*`, a list of days, `2#1` or `l5`.

    Raises CronError.
    """
    if not restricts(source.text):
        return "*"
    items = source.text.split(",")
    of_month = [special for item in items if (special := _weekday_of_month(source, item)) is not None]
    if not of_month:
        return listed(source)
    if len(of_month) < len(items):
        raise source.refused("days of every week and days of the month (#, L) do not mix in one list")
    return ",".join(sorted(set(of_month)))


def listed(source: FieldText) -> str:
    """A field of plain values as croniter reads it: `*` for all, else their list. Raises CronError."""
    values = source.values()
    return "*" if len(values) == source.field.size else ",".join(map(str, sorted(values)))


def _nearest_weekday(source: FieldText) -> str:
    if source.text in {"LW", "WL"}:
        raise source.refused("the last weekday of the month (LW) is not taken")
    if re.search("[,/-]", source.text):
        raise source.refused("W takes one day, not a list, a range or a step")
    match = _NEAREST.fullmatch(source.text)
    if match is None:
        raise source.refused(f"{shown(source.text)} is not a day with W, like 15W")
    return f"{source.number(match[1])}w"


def _weekday_of_month(source: FieldText, item: str) -> str | None:
    if (match := _NTH.fullmatch(item)) is not None:
        if match[2] not in {"1", "2", "3", "4", "5"}:
            raise source.refused(f"{item!r} must name the first to the fifth (#1 to #5)")
        return f"{source.passed_on(source.number(match[1]))}#{match[2]}"
    if (match := _LAST.fullmatch(item)) is not None:
        return f"l{source.passed_on(source.number(match[1] or match[2]))}"
    if "#" in item or "L" in item:
        raise _misplaced(source, item)
    return None


def _misplaced(source: FieldText, item: str) -> CronError:
    if item == "L":
        return source.refused("L alone is a different day in different programs; write SAT, or SATL")
    return source.refused(f"{shown(item)} is neither an n-th weekday like MON#1 nor a last one like MONL")
