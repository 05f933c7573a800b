"""The cron expressions that are taken, and how they are handed to croniter."""

import re
from dataclasses import dataclass
from typing import Final

from jobs.schedule.errors import CronError
from jobs.schedule.occurrence import cron_field
from jobs.schedule.occurrence.cron_days import day_of_month, day_of_week, listed, restricts
from jobs.schedule.occurrence.cron_field import CronField, FieldText

MAXIMUM_CHARACTERS: Final = 512
_TAKEN: Final = re.compile(r"[A-Za-z0-9*?/,#\t -]*", re.ASCII)
_FIVE: Final = (
    cron_field.MINUTE,
    cron_field.HOUR,
    cron_field.DAY_OF_MONTH,
    cron_field.MONTH,
    cron_field.DAY_OF_WEEK,
)
_SEVEN: Final = (
    cron_field.SECOND,
    cron_field.MINUTE,
    cron_field.HOUR,
    cron_field.DAY_OF_MONTH,
    cron_field.MONTH,
    cron_field.QUARTZ_DAY_OF_WEEK,
    cron_field.YEAR,
)
_LAYOUTS: Final = {5: _FIVE, 6: _SEVEN[:6], 7: _SEVEN}


@dataclass(frozen=True, slots=True)
class CronReading:
    """An expression that was read.

    text: as written, in capitals and with single blanks. alternatives: what croniter is given, seconds
    first, each with at most one day field that says something; the expression names what any of them does.
    follows_real_time: minute or hour begins with `*`.
    """

    text: str
    alternatives: tuple[str, ...]
    follows_real_time: bool


def read_cron(expression: str) -> CronReading:
    """What an expression says. Raises CronError naming the field and the rule.

    Five fields are crontab's: minute, hour, day of month, month, day of week with 0 and 7 for Sunday; day of
    month and day of week both restricted name the days of either. Six or seven are Quartz's: second first,
    day of week with 1 for Sunday, year last.
    """
    sources = _split(expression)
    by_field = {source.field.name: source for source in sources}
    days, weekdays = by_field[cron_field.DAY_OF_MONTH.name], by_field[cron_field.DAY_OF_WEEK.name]
    for source in sources:
        if "?" in source.text and source not in (days, weekdays):
            raise source.refused("? is taken only in the two day fields")
    texts = {source.field.name: listed(source) for source in sources if source not in (days, weekdays)}
    minute, hour = by_field[cron_field.MINUTE.name].text, by_field[cron_field.HOUR.name].text
    return CronReading(
        " ".join(source.text for source in sources),
        tuple(
            _handed_on(texts, day, weekday)
            for day, weekday in _days(days, weekdays, both_may=len(sources) == len(_FIVE))
        ),
        minute.startswith("*") or hour.startswith("*"),
    )


def _split(expression: str) -> list[FieldText]:
    if not isinstance(expression, str):
        raise CronError("", "expression", f"must be text, not {type(expression).__name__}")
    if len(expression) > MAXIMUM_CHARACTERS:
        rule = f"has {len(expression)} characters; at most {MAXIMUM_CHARACTERS} are taken"
        raise CronError(expression, "expression", rule)
    if expression.lstrip().startswith("@"):
        raise CronError(expression, "expression", "nicknames are not taken; write the fields")
    if _TAKEN.fullmatch(expression) is None:
        raise CronError(expression, "expression", "takes only A-Z a-z 0-9 * ? / , # - and blanks")
    texts = expression.upper().split()
    layout: tuple[CronField, ...] | None = _LAYOUTS.get(len(texts))
    if layout is None:
        rule = f"has {len(texts)} fields; five (minute first), six or seven (second first) are taken"
        raise CronError(expression, "expression", rule)
    return [FieldText(expression, field, text) for field, text in zip(layout, texts, strict=True)]


def _days(days: FieldText, weekdays: FieldText, *, both_may: bool) -> list[tuple[str, str]]:
    """The pairs of day fields, each with at least one `*`, that name the days of either together."""
    if days.text == "?" and weekdays.text == "?":
        raise days.refused("? stands in both day fields; one of them must say which days")
    day, weekday = day_of_month(days), day_of_week(weekdays)
    if not (restricts(days.text) and restricts(weekdays.text)):
        return [(day, weekday)]
    if not both_may:
        raise days.refused("is restricted as day of week is; with seconds first only one of them may be")
    for source in (days, weekdays):
        if source.text.startswith("*"):
            rule = "*/n beside another restricted day field is read in two ways; list its days"
            raise source.refused(rule)
    return [(day, "*"), ("*", weekday)]


def _handed_on(texts: dict[str, str], day: str, weekday: str) -> str:
    second = texts.get(cron_field.SECOND.name, "0")
    time_of_day = f"{second} {texts[cron_field.MINUTE.name]} {texts[cron_field.HOUR.name]}"
    year = texts.get(cron_field.YEAR.name, "*")
    return f"{time_of_day} {day} {texts[cron_field.MONTH.name]} {weekday} {year}"
