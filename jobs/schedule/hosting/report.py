"""The operations report: what is declared beside what is stored and what happened, with all that is wrong."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jobs.schedule.declaring.catalog import EffectiveSchedule
from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.hosting.options import SILENT_SECONDS
from jobs.schedule.storing.host_record import HostRecord
from jobs.schedule.storing.run_record import RunRecord
from jobs.schedule.storing.state import ScheduleState
from uow.ticks import TICKS_PER_SECOND, UtcInstant

OVERDUE_SECONDS: Final = 60.0
"""A slot this late that nobody has fired is told as a fault."""
SKEW_SECONDS: Final = 5.0
"""A host whose clock is further off than this is told; what is due is decided by the database's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule. schedule: None when this deployment does not declare it; state: None while not stored.

    lag_seconds: how long its next slot is overdue, 0 when it is not. problems: all that does not fit, one
    sentence each.
    """

    name: str
    schedule: EffectiveSchedule | None
    state: ScheduleState | None
    lag_seconds: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def last_run(self) -> RunRecord | None:
        """The latest run, if there was one."""
        return None if self.state is None else self.state.last_run


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleReport:
    """All schedules and hosts at one moment of the database's clock.

    leader: the host that holds the lease of the hosts, with its fencing token; None when nobody does.
    problems: of the hosts. zone_data: the version of the time zones of the process that reports.
    """

    moment: UtcInstant
    rows: tuple[ScheduleRow, ...]
    hosts: tuple[HostRecord, ...]
    leader: tuple[str, int] | None
    zone_data: str
    problems: tuple[str, ...] = field(default=())

    @property
    def live_hosts(self) -> tuple[HostRecord, ...]:
        """Those that told of themselves lately."""
        return tuple(host for host in self.hosts if _age(host.ticked, self.moment) <= SILENT_SECONDS)


def make_report(
    *,
    moment: UtcInstant,
    schedules: Mapping[str, EffectiveSchedule],
    states: Sequence[ScheduleState],
    hosts: Sequence[HostRecord],
    leader: tuple[str, int] | None,
    zone_data: str,
) -> ScheduleReport:
    """The report of what was read."""
    by_name = {state.name: state for state in states}
    names = sorted({*schedules, *by_name})
    rows = tuple(_row(name, schedules.get(name), by_name.get(name), moment) for name in names)
    live = [host for host in hosts if _age(host.ticked, moment) <= SILENT_SECONDS]
    return ScheduleReport(
        moment=moment,
        rows=rows,
        hosts=tuple(hosts),
        leader=leader,
        zone_data=zone_data,
        problems=tuple(_host_problems(live, zone_data, any(schedules))),
    )


def _row(
    name: str, schedule: EffectiveSchedule | None, state: ScheduleState | None, moment: UtcInstant
) -> ScheduleRow:
    lag = 0.0 if state is None or state.next_fire is None else max(0.0, _age(state.next_fire, moment))
    problems = tuple(_problems(schedule, state, lag))
    return ScheduleRow(name=name, schedule=schedule, state=state, lag_seconds=lag, problems=problems)


def _problems(schedule: EffectiveSchedule | None, state: ScheduleState | None, lag: float) -> Iterable[str]:
    if state is None:
        yield "it is declared but not stored: no host with this declaration has started yet"
        return
    if schedule is None:
        if state.declared:
            yield "it is stored but not declared here: another deployment has it, or a host is still to start"
        return
    yield from _differences(schedule, state)
    if state.paused:
        return
    if schedule.declaration.enabled and state.enabled and state.next_fire is None:
        yield "it is enabled but has no slot to come"
    if lag > OVERDUE_SECONDS:
        yield f"its slot is overdue by {lag:.0f} s: {_why_overdue(schedule, state)}"


def _why_overdue(schedule: EffectiveSchedule, state: ScheduleState) -> str:
    declaration, run = schedule.declaration, state.last_run
    in_turn = declaration.misfire is MisfirePolicy.CATCH_UP and declaration.overlap is not OverlapPolicy.ALLOW
    if in_turn and run is not None and run.outcome is None:
        return f"it comes after run {run.run_id}, which has not ended"
    return "no host that declares it so fires it"


def _differences(schedule: EffectiveSchedule, state: ScheduleState) -> Iterable[str]:
    declared = None if schedule.trigger is None else schedule.trigger.describe()
    if declared != state.trigger_text:
        yield f"declared is {declared or 'no trigger'}, stored is {state.trigger_text or 'no trigger'}"
    if schedule.declaration.enabled != state.enabled or not state.declared:
        stored = "enabled" if state.enabled else "disabled"
        yield f"declared is {'enabled' if schedule.declaration.enabled else 'disabled'}, stored is {stored}"


def _host_problems(live: Sequence[HostRecord], zone_data: str, any_declared: bool) -> Iterable[str]:
    if not live:
        if any_declared:
            yield f"no host has told of itself within {SILENT_SECONDS:g} s: no slot fires"
        return
    versions = sorted({host.zone_data for host in live} | {zone_data})
    if len(versions) > 1:
        yield f"time zones of different versions are in use: {', '.join(versions)}"
    for host in live:
        if abs(host.ahead_seconds) > SKEW_SECONDS:
            side = "ahead of" if host.ahead_seconds > 0 else "behind"
            yield f"the clock of host {host.host} is {abs(host.ahead_seconds):.1f} s {side} the database's"


def _age(instant: UtcInstant, moment: UtcInstant) -> float:
    return (moment.ticks - instant.ticks) / TICKS_PER_SECOND
