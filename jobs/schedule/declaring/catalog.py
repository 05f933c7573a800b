"""All schedules of a deployment: what its modules declare, with its overrides, checked as a whole."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.declaration_check import declaration_faults
from jobs.schedule.declaring.executor import ScheduleExecutor
from jobs.schedule.declaring.gathering import gather
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.declaring.override import SOURCE_UNITS, ScheduleOverrides, overridden, read_overrides
from jobs.schedule.errors import shown
from jobs.schedule.occurrence.timing import trigger_of
from jobs.schedule.occurrence.trigger import Trigger
from uow.errors import FixTheCodeError
from uow.text import clean_text
from uow.ticks import UtcInstant


class ScheduleCompositionError(FixTheCodeError):
    """These schedules cannot be hosted; `problems` has one line for each fault, with schedule and reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        listed = problems[0] if len(problems) == 1 else "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"these schedules cannot be hosted: {listed}")
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type["ScheduleCompositionError"], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSchedule:
    """A schedule as it is in force here.

    declaration: with the overrides of the deployment. trigger: None for a disabled one without any.
    override_source: the labels of the sources that changed it, None when none did.
    """

    declaration: ScheduleDeclaration
    trigger: Trigger | None
    executor: ScheduleExecutor
    override_source: str | None = None


class ScheduleCatalog(Mapping[str, EffectiveSchedule]):
    """The schedules in force by name, in the order of their names; make it with `compose`. Never changes."""

    def __init__(self, schedules: Iterable[EffectiveSchedule]) -> None:
        by_name = {each.declaration.name: each for each in schedules}
        self._schedules = {name: by_name[name] for name in sorted(by_name)}

    @classmethod
    def compose(
        cls,
        modules: Iterable[ScheduleModule],
        overrides: Sequence[ScheduleOverrides] = (),
        *,
        now: UtcInstant | None = None,
    ) -> Self:
        """The schedules of these modules, with overrides applied in their order: the last one wins a field.

        Raises ScheduleCompositionError with every fault: names declared twice, executors missing or unused,
        cron and interval together or neither of them, expressions, dates and zones that do not exist,
        overrides of what there is not, values out of range. An enabled schedule must have an occurrence
        after `now`, the present by default.
        """
        gathered = gather(modules)
        problems = gathered.problems
        names = {each.name for each in gathered.declarations if isinstance(each.name, str)}
        changes = [(each.source, read_overrides(each, names, problems)) for each in overrides]
        present = now or UtcInstant.now()
        schedules = []
        for declared in gathered.declarations:
            declaration, source = _changed(declared, changes)
            faults = list(declaration_faults(declaration))
            trigger = trigger_of(declaration, faults, now=present)
            told = f"schedule {shown(declared.name)}{f' (overridden by {source})' if source else ''}"
            problems += [f"{told}: {fault}" for fault in faults]
            if not problems:
                executor = gathered.executors[declared.name]
                schedules.append(
                    EffectiveSchedule(
                        declaration=declaration, trigger=trigger, executor=executor, override_source=source
                    )
                )
        if problems:
            raise ScheduleCompositionError(list(dict.fromkeys(problems)))
        return cls(schedules)

    def __getitem__(self, name: str) -> EffectiveSchedule:
        return self._schedules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schedules)

    def __len__(self) -> int:
        return len(self._schedules)

    def __repr__(self) -> str:
        return f"ScheduleCatalog({', '.join(self._schedules)})"


def _changed(
    declared: ScheduleDeclaration, changes: Iterable[tuple[str, Mapping[str, Mapping[str, Any]]]]
) -> tuple[ScheduleDeclaration, str | None]:
    """The declaration with all overrides of it, and the labels of their sources."""
    sources = []
    for source, by_name in changes:
        fields = by_name.get(declared.name) if isinstance(declared.name, str) else None
        if fields:
            declared = overridden(declared, fields)
            sources.append(source)
    return declared, clean_text(" and ".join(sources), units=SOURCE_UNITS) if sources else None
