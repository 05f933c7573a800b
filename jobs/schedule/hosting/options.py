"""Options of a host of schedules."""

from dataclasses import dataclass, fields
from typing import Final

from jobs.errors import JobOptionError
from uow.option_rule import require_seconds

SILENT_SECONDS: Final = 60.0
"""A host that has not told of itself for so long counts as gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """How a host fires slots. Raises JobOptionError naming option, value and rule.

    enabled: whether executor processes host schedules at all. tick_seconds: between looks for due slots, so
    the longest time by which a slot starts late. take_over_seconds: a slot this late is fired by any host,
    not only by the one that leads. beat_seconds: how often a host tells that it is alive. Ticks and beats are
    at most 30 s apart, since a host that has not told of itself for 60 s counts as gone.
    """

    enabled: bool = True
    tick_seconds: float = 1.0
    take_over_seconds: float = 5.0
    beat_seconds: float = 10.0

    def __post_init__(self) -> None:
        try:
            for option in fields(self):
                if option.name.endswith("_seconds"):
                    require_seconds(option.name, getattr(self, option.name))
        except ValueError as error:
            raise JobOptionError(str(error)) from None
        for name in ("tick_seconds", "beat_seconds"):
            if (seconds := getattr(self, name)) > SILENT_SECONDS / 2:
                raise JobOptionError(f"{name} must be at most {SILENT_SECONDS / 2:g}, not {seconds!r}")
