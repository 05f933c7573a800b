"""What the modules contribute, brought together: declarations, and the executors that are bound to them."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.executor import ScheduleExecutor, ScheduleExecutorError, executor_of
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.errors import shown
from uow.suggestion import did_you_mean


@dataclass(slots=True)
class Gathered:
    """All declarations in their order, the executor of each by name, and what does not fit together."""

    declarations: list[ScheduleDeclaration] = field(default_factory=list)
    executors: dict[str, ScheduleExecutor] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def gather(modules: Iterable[object]) -> Gathered:
    """What these modules contribute; names that are declared twice, executors that are missing or unused."""
    gathered = Gathered()
    known = _modules(modules, gathered)
    for module in known:
        _declarations(module, gathered)
    names = Counter(each.name for each in gathered.declarations if isinstance(each.name, str))
    for name, count in names.items():
        if count > 1:
            owners = sorted({shown(each.module) for each in gathered.declarations if each.name == name})
            gathered.problems.append(
                f"schedule {shown(name)}: is declared {count} times (by {', '.join(owners)}); "
                "a name stands for one schedule"
            )
    _executors(known, set(names), gathered)
    return gathered


def _modules(modules: Iterable[object], gathered: Gathered) -> list[ScheduleModule]:
    known: list[ScheduleModule] = []
    for module in modules:
        if not isinstance(module, ScheduleModule):
            kind = type(module).__name__
            gathered.problems.append(f"modules of schedules must be ScheduleModule objects, not {kind}")
        elif module in known:
            gathered.problems.append(f"module {shown(module.name)} of schedules is given twice")
        else:
            known.append(module)
    return known


def _declarations(module: ScheduleModule, gathered: Gathered) -> None:
    for declaration in module.declarations:
        if not isinstance(declaration, ScheduleDeclaration):
            kind = type(declaration).__name__
            gathered.problems.append(
                f"module {shown(module.name)} declares a {kind}, which is no ScheduleDeclaration"
            )
            continue
        gathered.declarations.append(declaration)
        if declaration.module != module.name:
            gathered.problems.append(
                f"schedule {shown(declaration.name)}: is declared by module {shown(module.name)}, "
                f"but says that it belongs to {shown(declaration.module)}"
            )


def _executors(modules: Iterable[ScheduleModule], names: set[str], gathered: Gathered) -> None:
    bound: dict[str, list[object]] = defaultdict(list)
    for module in modules:
        for name, each in module.executors:
            bound[name if isinstance(name, str) else shown(name)].append(each)
    for name in sorted(names - bound.keys()):
        gathered.problems.append(
            f"schedule {shown(name)}: has no executor; decorate the function that does its work "
            f"with @module.executor({shown(name)})"
        )
    for name, works in bound.items():
        told = f"schedule {shown(name)}"
        if name not in names:
            hint = did_you_mean(name, names)
            gathered.problems.append(f"{told}: has an executor, but is declared nowhere{hint}")
        if len(works) > 1:
            gathered.problems.append(f"{told}: has {len(works)} executors; one of them must go")
        for work in works:
            try:
                gathered.executors[name] = executor_of(work)
            except ScheduleExecutorError as error:
                gathered.problems.append(f"{told}: its executor {error}")
