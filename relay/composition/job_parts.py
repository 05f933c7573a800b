"""What an App is given of jobs and schedules; a process without schedules loads no cron library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import MetaData

from jobs.execution.registry import JobRegistry
from jobs.schedule.storing.table import ScheduleTables, find_schedule_tables
from jobs.table import JobTables, find_job_tables
from relay.composition.check import job_problems

if TYPE_CHECKING:
    from jobs.schedule.declaring.catalog import EffectiveSchedule

_LEFT_OUT: Final = (
    "there are schedules, but the metadata has no tables for them; call relay.add_messaging_tables(metadata) "
    "without jobs=False and schedules=False"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """registries: the handlers of jobs. schedules: those in force, by name.

    job_tables, schedule_tables: None when these tables were left out.
    """

    registries: tuple[JobRegistry, ...]
    schedules: Mapping[str, "EffectiveSchedule"]
    job_tables: JobTables | None
    schedule_tables: ScheduleTables | None


def checked_job_parts(
    metadata: Any, registries: Sequence[Any], modules: Sequence[Any], overrides: Sequence[Any]
) -> tuple[JobParts | None, list[str]]:
    """The parts, or all that is wrong with them."""
    if not isinstance(metadata, MetaData):
        return None, []  # told already
    schedules, faults = _composed(metadata, modules, overrides)
    if problems := job_problems(metadata, registries) + faults:
        return None, problems
    parts = JobParts(
        registries=tuple(registries),
        schedules=schedules,
        job_tables=find_job_tables(metadata),
        schedule_tables=find_schedule_tables(metadata),
    )
    return parts, []


def _composed(
    metadata: MetaData, modules: Sequence[Any], overrides: Sequence[Any]
) -> tuple[Mapping[str, "EffectiveSchedule"], list[str]]:
    if not modules and not overrides:
        return {}, []
    from jobs.schedule.declaring.catalog import ScheduleCatalog, ScheduleCompositionError  # noqa: PLC0415
    from jobs.schedule.declaring.module import ScheduleModule  # noqa: PLC0415
    from jobs.schedule.declaring.override import ScheduleOverrides  # noqa: PLC0415

    problems = _strangers("schedules", modules, ScheduleModule)
    problems += _strangers("schedule_overrides", overrides, ScheduleOverrides)
    if find_schedule_tables(metadata) is None:
        problems.append(_LEFT_OUT)
    if problems:
        return {}, problems
    try:
        return ScheduleCatalog.compose(modules, overrides), []
    except ScheduleCompositionError as error:
        return {}, list(error.problems)


def _strangers(name: str, given: Sequence[Any], kind: type[Any]) -> list[str]:
    return [
        f"{name} must be {kind.__name__} objects, not {type(each).__name__}"
        for each in given
        if not isinstance(each, kind)
    ]
