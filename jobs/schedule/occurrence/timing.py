"""The trigger that a declaration asks for, or everything that is wrong with it."""

from collections.abc import Callable
from typing import TypeVar

from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.errors import ScheduleError
from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.cron_expression import CronExpression
from jobs.schedule.occurrence.interval import IntervalSchedule
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from jobs.schedule.occurrence.time_zone import TimeZone
from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.table import TRIGGER_UNITS
from uow.ticks import UtcInstant

Part = TypeVar("Part")


def trigger_of(declaration: ScheduleDeclaration, faults: list[str], *, now: UtcInstant) -> Trigger | None:
    """The trigger; None when there is none. What is wrong with cron, interval and zone goes to `faults`.

    What is enabled needs one that has an occurrence after `now`. What is disabled may have none, or one whose
    years are over: it is kept for people to see, and never fires. Policies are checked elsewhere.
    """
    cron, interval = declaration.cron, declaration.interval
    if cron is not None and interval is not None:
        faults.append("has both cron and interval; one of them must go")
    elif cron is None and interval is None and declaration.enabled:
        faults.append("is enabled, but has neither cron nor interval")
    zone = _part(faults, lambda: TimeZone(declaration.time_zone))
    every = None if interval is None else _part(faults, lambda: IntervalSchedule.every(interval))
    expression = None if cron is None else _part(faults, lambda: _expression(declaration, cron, now))
    if cron is None:
        return every
    policies_fit = isinstance(declaration.gap, GapPolicy) and isinstance(declaration.fold, FoldPolicy)
    if zone is None or expression is None or not policies_fit:
        return None
    return _part(faults, lambda: _cron(declaration, expression, zone))


def _expression(declaration: ScheduleDeclaration, cron: str, now: UtcInstant) -> CronExpression:
    return CronExpression.parse(cron, after=now) if declaration.enabled else CronExpression(cron)


def _cron(declaration: ScheduleDeclaration, expression: CronExpression, zone: TimeZone) -> CronSchedule:
    trigger = CronSchedule(expression=expression, time_zone=zone, gap=declaration.gap, fold=declaration.fold)
    if (beyond := len(trigger.describe()) - TRIGGER_UNITS) > 0:
        length = len(expression.text)
        rule = f"has {length} characters; with this time zone at most {length - beyond} can be stored"
        raise ScheduleError("cron", rule)
    return trigger


def _part(faults: list[str], make: Callable[[], Part]) -> Part | None:
    try:
        return make()
    except ScheduleError as error:
        faults.append(str(error))
        return None
