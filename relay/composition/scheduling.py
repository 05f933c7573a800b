"""The schedules of an App: composed when it has some; a process without any loads nothing for them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import MetaData

from jobs.schedule.table import find_schedule_tables

if TYPE_CHECKING:
    from jobs.schedule.catalog import EffectiveSchedule

_LEFT_OUT: Final = (
    "there are schedules, but the metadata has no tables for them; call relay.add_messaging_tables(metadata) "
    "without jobs=False and schedules=False"
)


def compose_schedules(
    metadata: Any, modules: Sequence[Any], overrides: Sequence[Any]
) -> tuple[Mapping[str, "EffectiveSchedule"], list[str]]:
    """The schedules in force by name, and all that is wrong with them."""
    if not modules and not overrides:
        return {}, []
    from jobs.schedule.catalog import ScheduleCatalog, ScheduleCompositionError  # noqa: PLC0415
    from jobs.schedule.module import ScheduleModule  # noqa: PLC0415
    from jobs.schedule.override import ScheduleOverrides  # noqa: PLC0415

    problems = _strangers("schedules", modules, ScheduleModule)
    problems += _strangers("schedule_overrides", overrides, ScheduleOverrides)
    if isinstance(metadata, MetaData) and find_schedule_tables(metadata) is None:
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
