"""What one module of the application contributes: its schedules, and what does their work."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypedDict, TypeVar, Unpack

from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.executor import ScheduleExecutor, ScheduleFunction
from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy

Work = TypeVar("Work", bound=ScheduleExecutor | ScheduleFunction)


class DeclarationFields(TypedDict, total=False):
    """The fields of a ScheduleDeclaration that have defaults."""

    cron: str | None
    interval: timedelta | None
    time_zone: str
    enabled: bool
    critical: bool
    source: str
    description: str
    misfire: MisfirePolicy
    misfire_grace: timedelta
    catch_up_limit: int
    catch_up_age: timedelta
    overlap: OverlapPolicy
    gap: GapPolicy
    fold: FoldPolicy
    jitter: timedelta
    succeed_within: timedelta | None
    queue: str
    max_attempts: int
    priority: int


class ScheduleModule:
    """The declarations and executors of one module, bound to one another by the names of the schedules.

    name: not blank, at most 200 UTF-16 units. It only collects; ScheduleCatalog.compose checks all modules
    together and tells every fault at once.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._declarations: list[ScheduleDeclaration] = []
        self._executors: list[tuple[str, ScheduleExecutor | ScheduleFunction]] = []

    @property
    def declarations(self) -> tuple[ScheduleDeclaration, ...]:
        """What was declared, in that order."""
        return tuple(self._declarations)

    @property
    def executors(self) -> tuple[tuple[str, ScheduleExecutor | ScheduleFunction], ...]:
        """Names of schedules and what does their work, as they were given."""
        return tuple(self._executors)

    def declare(self, declaration: ScheduleDeclaration) -> ScheduleDeclaration:
        """Add a schedule of this module; returns it."""
        self._declarations.append(declaration)
        return declaration

    def execute(self, name: str, executor: ScheduleExecutor | ScheduleFunction) -> None:
        """Let `executor` do the work of the schedule of this name."""
        self._executors.append((name, executor))

    def executor(self, name: str) -> Callable[[Work], Work]:
        """Decorate the `async def function(context)` that does the work of this schedule."""

        def register(work: Work) -> Work:
            self.execute(name, work)
            return work

        return register

    def schedule(self, *, name: str, **fields: Unpack[DeclarationFields]) -> Callable[[Work], Work]:
        """Declare a schedule of this module and decorate the `async def function(context)` of its work.

        name and fields: those of ScheduleDeclaration. An object with `async def execute(context)` may stand
        for the function: `module.schedule(name=..., cron=...)(Cleanup(files))`.
        """
        declaration = ScheduleDeclaration(name=name, module=self.name, **fields)

        def register(work: Work) -> Work:
            self.declare(declaration)
            self.execute(name, work)
            return work

        return register

    def __repr__(self) -> str:
        return f"ScheduleModule({self.name!r})"
