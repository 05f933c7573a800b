"""What every verb on stored schedules stands on."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from jobs.schedule.storing.table import ScheduleTables
from jobs.scope import scope_hash
from jobs.store import JobStore
from uow.sql.clock import OperationalClock
from uow.sql.dialect import Database

T = TypeVar("T")

SCOPE: Final = "selfmanaged.schedules"
"""The scope of the jobs of schedules: `app.jobs.get(SCOPE, run.job_id)` shows one."""
SCOPE_HASH: Final = scope_hash(SCOPE)
HANDLER_PREFIX: Final = "schedule."
"""The handler of a schedule's jobs is this and the schedule's name."""


@dataclass(frozen=True, slots=True)
class ScheduleGround:
    """The tables, the store of the jobs, and the statements built on them."""

    tables: ScheduleTables
    jobs: JobStore
    _built: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def clock(self) -> OperationalClock:
        """The clock of the store of jobs."""
        return self.jobs.ground.clock

    def built(
        self,
        build: Callable[["ScheduleGround", Database, Any], T],
        database: Database,
        variant: Hashable = None,
    ) -> T:
        """What `build(ground, database, variant)` makes, made once."""
        name = (build, database.name, variant)
        if name not in self._built:
            self._built[name] = build(self, database, variant)
        made: T = self._built[name]
        return made
