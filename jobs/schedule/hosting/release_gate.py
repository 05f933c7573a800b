"""Whether schedules are fit for a release: each reason against it is one sentence."""

from collections.abc import Iterable

from jobs.schedule.hosting.report import ScheduleReport, ScheduleRow
from uow.ticks import TICKS_PER_SECOND


def release_problems(report: ScheduleReport) -> list[str]:
    """All that speaks against a release, each naming the schedule or host and the reason; empty when fit.

    A critical schedule must be enabled, not paused, and have succeeded within its `succeed_within`. Whatever
    is enabled must have a slot to come; declarations must agree with what is stored, and a host be alive.
    """
    problems = [f"schedules: {problem}" for problem in report.problems]
    for row in report.rows:
        problems += [f"schedule {row.name}: {problem}" for problem in row.problems]
        problems += [f"schedule {row.name}: {problem}" for problem in _of_critical(row, report)]
    return problems


def _of_critical(row: ScheduleRow, report: ScheduleReport) -> Iterable[str]:
    schedule, state = row.schedule, row.state
    if schedule is None or not schedule.declaration.critical:
        return
    if not schedule.declaration.enabled:
        overridden = f", by {schedule.override_source}" if schedule.override_source else ""
        yield f"it is critical, and disabled{overridden}"
        return
    if state is None:
        return
    if state.paused:
        yield "it is critical, and paused"
    within = schedule.declaration.succeed_within
    if within is None:
        return
    if state.last_success is None:
        yield f"it is critical, and has never succeeded; it must within {within}"
    elif report.moment.ticks - state.last_success.ticks > within.total_seconds() * TICKS_PER_SECOND:
        yield f"it is critical, and last succeeded at {state.last_success}; it must within {within}"
