"""What is wrong with one declaration; everything is looked at, so that all is told at once."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final, TypeGuard

from jobs.errors import JobSubmissionError
from jobs.schedule.declaring.declaration import POLICIES, ScheduleDeclaration
from jobs.schedule.errors import shown
from jobs.schedule.storing.table import NAME_UNITS
from jobs.submission import MAXIMUM_ATTEMPTS, PRIORITY_LIMIT, check_name
from uow.option_rule import require_whole_number
from uow.text import TextError, check_text

MODULE_UNITS: Final = 200
CATCH_UP_MAXIMUM: Final = 10_000
JITTER_MAXIMUM: Final = timedelta(days=1)

_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_UNITS}}}")
_ZERO: Final = timedelta(0)


def name_fault(name: object) -> str | None:
    """The rule that this name of a schedule breaks, or None."""
    if isinstance(name, str) and _NAME.fullmatch(name) is not None:
        return None
    return f"name must be 1 to {NAME_UNITS} characters of A-Z a-z 0-9 . _ -"


def declaration_faults(declaration: ScheduleDeclaration) -> Iterator[str]:
    """The rules that the fields break, each with the field and what it holds; not those of its timing."""
    if (fault := name_fault(declaration.name)) is not None:
        yield fault
    yield from _text_faults(declaration)
    for field in ("enabled", "critical"):
        if not isinstance(value := getattr(declaration, field), bool):
            yield f"{field} must be True or False, not {shown(value)}"
    for field, kind in POLICIES.items():
        if not isinstance(value := getattr(declaration, field), kind):
            yield f"{field} must be one of {', '.join(kind)}, not {shown(value)}"
    yield from _duration_faults(declaration)
    yield from _job_faults(declaration)


def _text_faults(declaration: ScheduleDeclaration) -> Iterator[str]:
    try:
        check_text("module", declaration.module, units=MODULE_UNITS, blank=False)
    except TextError as error:
        yield str(error)
    for field in ("source", "description"):
        if not isinstance(value := getattr(declaration, field), str):
            yield f"{field} must be text, not {type(value).__name__}"


def _duration_faults(declaration: ScheduleDeclaration) -> Iterator[str]:
    grace, age = declaration.misfire_grace, declaration.catch_up_age
    jitter, interval, within = declaration.jitter, declaration.interval, declaration.succeed_within
    if not isinstance(grace, timedelta) or grace < _ZERO:
        yield f"misfire_grace must be a timedelta that is not negative, not {shown(grace)}"
    if not _is_positive(age):
        yield f"catch_up_age must be a positive timedelta, not {shown(age)}"
    if not isinstance(jitter, timedelta) or not _ZERO <= jitter <= JITTER_MAXIMUM:
        yield f"jitter must be a timedelta from 0 to {JITTER_MAXIMUM.days} day, not {shown(jitter)}"
    elif _is_positive(interval) and jitter >= interval:
        yield f"jitter must be shorter than the interval, not {shown(jitter)}"
    if within is not None and not _is_positive(within):
        yield f"succeed_within must be a positive timedelta or None, not {shown(within)}"


def _job_faults(declaration: ScheduleDeclaration) -> Iterator[str]:
    try:
        check_name("queue", declaration.queue)
    except JobSubmissionError as error:
        yield str(error)
    for field, least, most in (
        ("catch_up_limit", 1, CATCH_UP_MAXIMUM),
        ("max_attempts", 1, MAXIMUM_ATTEMPTS),
        ("priority", -PRIORITY_LIMIT, PRIORITY_LIMIT),
    ):
        try:
            require_whole_number(field, getattr(declaration, field), least=least, most=most)
        except ValueError as error:
            yield str(error)


def _is_positive(duration: object) -> TypeGuard[timedelta]:
    return isinstance(duration, timedelta) and duration > _ZERO
