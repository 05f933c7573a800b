"""Options of a host of schedules."""

from dataclasses import dataclass, fields

from jobs.errors import JobOptionError
from uow.option_rule import require_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """How a host fires slots. Raises JobOptionError naming option, value and rule.

    enabled: whether executor processes host schedules at all. tick_seconds: between looks for due slots, so
    the longest time by which a slot starts late. take_over_seconds: a slot this late is fired by any host,
    not only by the one that leads. beat_seconds: how often a host tells that it is alive.
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
