"""What a deployment changes of the schedules that its modules declare."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.override_field import READERS
from jobs.schedule.errors import shown
from uow.suggestion import did_you_mean
from uow.text import check_text

SOURCE_UNITS: Final = 200

_SEPARATOR: Final = "__"
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOverrides:
    """Changes of schedules that come from one source of a deployment.

    source: a label for people, like `deploy.toml`, at most 200 UTF-16 units. values: by the name of the
    schedule and the field. variables: by `SCHEDULE__FIELD`, where SCHEDULE is the name in capitals with `_`
    for all that is neither letter nor digit, as in `FILES_ORPHAN_CLEANUP__CRON`.

    Fields are enabled, cron, interval, time_zone, misfire, overlap and jitter; all else belongs to the
    module. A cron takes the place of an interval, and the other way round. Text is read: `true` or `false`,
    `90s`, `15m`, `2h` or `1d`, the name of a policy. Raises TextError for the label alone; ScheduleCatalog
    tells all other faults.
    """

    source: str
    values: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text("source", self.source, units=SOURCE_UNITS, blank=False)


def spelling_of(name: str) -> str:
    """The name of a schedule as variables spell it."""
    return _NO_LETTER.sub("_", name).upper()


def read_overrides(
    overrides: ScheduleOverrides, names: Collection[str], problems: list[str]
) -> dict[str, dict[str, Any]]:
    """What one source changes, by schedule and field, texts read; what is wrong goes to `problems`."""
    changes: dict[str, dict[str, Any]] = {}
    for name, values in overrides.values.items():
        told = f"schedule {shown(name)}, override by {overrides.source}"
        if name not in names:
            problems.append(f"{told}: there is no such schedule{did_you_mean(str(name), names)}")
        elif not isinstance(values, Mapping):
            problems.append(f"{told}: must be a mapping of fields, not {type(values).__name__}")
        else:
            for key, value in values.items():
                _read(changes.setdefault(name, {}), key, value, told, problems)
    for variable, text in overrides.variables.items():
        told = f"override {shown(variable)} by {overrides.source}"
        spelling, separator, key = variable.upper().rpartition(_SEPARATOR)
        if not separator:
            problems.append(f"{told}: must be SCHEDULE{_SEPARATOR}FIELD")
            continue
        meant = _named(spelling, names, told, problems)
        if meant is not None:
            told = f"schedule {shown(meant)}, {told}"
            _read(changes.setdefault(meant, {}), key.lower(), text, told, problems)
    return changes


def overridden(declaration: ScheduleDeclaration, changes: Mapping[str, Any]) -> ScheduleDeclaration:
    """The declaration with these fields; a cron takes the place of an interval, and the other way round."""
    timing = {"cron": None, "interval": None} if changes.keys() & {"cron", "interval"} else {}
    return replace(declaration, **{**timing, **changes})


def _named(spelling: str, names: Collection[str], told: str, problems: list[str]) -> str | None:
    meant = sorted(name for name in names if spelling_of(name) == spelling)
    if len(meant) == 1:
        return meant[0]
    if meant:
        listed = " and ".join(map(repr, meant))
        problems.append(f"{told}: stands for {listed} alike; override them by a mapping of names instead")
    else:
        known = {spelling_of(name) for name in names}
        problems.append(f"{told}: there is no schedule {shown(spelling)}{did_you_mean(spelling, known)}")
    return None


def _read(changes: dict[str, Any], key: str, value: object, told: str, problems: list[str]) -> None:
    read = READERS.get(key)
    if read is None:
        if key in ScheduleDeclaration.__dataclass_fields__:
            reason = f"{key} belongs to the module; a deployment may override {', '.join(READERS)}"
        else:
            reason = f"unknown field {shown(key)}{did_you_mean(str(key), READERS)}"
        problems.append(f"{told}: {reason}")
    elif key in changes:
        problems.append(f"{told}: {key} is given twice by this source")
    else:
        try:
            changes[key] = read(value)
        except ValueError as error:
            problems.append(f"{told}: {key} {error}, not {shown(value)}")
