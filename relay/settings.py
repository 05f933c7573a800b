"""What a process is told from outside: the only reader of the environment."""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from relay.composition.app_options import AppOptions
from relay.composition.option_reading import OptionError, read_options
from uow.suggestion import did_you_mean

PREFIX: Final = "SELFMANAGED_"
_SEPARATOR: Final = "__"
_SCHEDULES: Final = f"{PREFIX}SCHEDULES{_SEPARATOR}"
_PLAIN: Final = ("database_url", "broker_url", "environment", "operator", "log_level")


class LogLevel(StrEnum):
    """How much the command line logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The variables `SELFMANAGED_...`, checked.

    database_url, broker_url and environment: for the application to build its engine and App from, so that
    moving from SQLite and `local:` to servers is two variables (SELFMANAGED_DATABASE_URL,
    SELFMANAGED_BROKER_URL). operator: who is recorded for operations on the command line. log_level: of the
    command line. options: from variables such as SELFMANAGED_OUTBOX__BATCH_SIZE=100, where the double
    underscore stands between group and option. schedules: overrides of schedules, from variables such as
    SELFMANAGED_SCHEDULES__FILES_ORPHAN_CLEANUP__CRON="0 4 * * *", by what follows SELFMANAGED_SCHEDULES__:
    for `ScheduleOverrides(source=..., variables=...)` of the App, where they are checked.
    """

    database_url: str | None = field(default=None, repr=False)
    broker_url: str = field(default="local:", repr=False)
    environment: str = "production"
    operator: str | None = None
    log_level: LogLevel = LogLevel.INFO
    options: AppOptions = field(default_factory=AppOptions)
    schedules: Mapping[str, str] = field(default_factory=dict)


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in these variables (default: those of this process).

    An empty variable counts as not given. Raises OptionError naming every unknown variable, with the known
    one that it resembles, and every value that breaks a rule.
    """
    variables = os.environ if environment is None else environment
    plain: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    schedules: dict[str, str] = {}
    problems: list[str] = []
    for variable, text in variables.items():
        if not variable.startswith(PREFIX) or not text:
            continue
        name = variable.removeprefix(PREFIX).lower()
        override = variable.removeprefix(_SCHEDULES) if variable.startswith(_SCHEDULES) else ""
        if _SEPARATOR in override:  # with a schedule between; else it is an option of their hosts
            schedules[override] = text
        elif _SEPARATOR in name or name in AppOptions.__dataclass_fields__:
            _nest(nested, name.split(_SEPARATOR), text)
        elif name in _PLAIN:
            plain[name] = text
        else:
            known = [f"{PREFIX}{each.upper()}" for each in _PLAIN]
            problems.append(f"unknown variable {variable}{did_you_mean(variable, known)}")
    level = str(plain.get("log_level", LogLevel.INFO)).lower()
    if level in set(LogLevel):
        plain["log_level"] = LogLevel(level)
    else:
        problems.append(f"{PREFIX}LOG_LEVEL must be a level, not {level!r}{did_you_mean(level, LogLevel)}")
    try:
        plain["options"] = read_options(AppOptions, nested)
    except OptionError as error:
        problems += [f"{PREFIX}*: {problem}" for problem in error.problems]
    if problems:
        raise OptionError(problems)
    return Settings(**plain, schedules=schedules)


def operator_name(settings: Settings) -> str:
    """Who works at this terminal: SELFMANAGED_OPERATOR, else the login name, else `unknown`."""
    if settings.operator:
        return settings.operator
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without a user database
        return "unknown"


def _nest(values: dict[str, Any], path: list[str], text: str) -> None:
    *groups, name = path
    for group in groups:
        inner = values.setdefault(group, {})
        if not isinstance(inner, dict):
            return
        values = inner
    values[name] = text
