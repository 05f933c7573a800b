"""How schedules look, to people and to programs."""

from collections.abc import Sequence
from typing import Any

from jobs.schedule.hosting.report import ScheduleReport, ScheduleRow
from jobs.schedule.storing.action import RecordedAction
from jobs.schedule.storing.run_record import RunRecord
from relay.cli.jobs_view import instant_text
from relay.cli.screen import Screen


def show_list(report: ScheduleReport, screen: Screen) -> None:
    """One line for each schedule."""
    screen.document({"schedules": [_document(row) for row in report.rows]})
    if not report.rows:
        screen.line("There are no schedules; give the App some: App(..., schedules=[module]).")
        return
    screen.table(
        ["Schedule", "State", "When", "Next", "Last run", "Outcome", "Problems"],
        [
            (
                row.name,
                _state(row),
                _trigger(row),
                instant_text(None if row.state is None else row.state.next_fire),
                instant_text(None if row.last_run is None else row.last_run.staged),
                None if row.last_run is None else row.last_run.outcome or "running",
                len(row.problems) or None,
            )
            for row in report.rows
        ],
        whole=["Schedule", "Next", "Last run"],
    )
    if any(row.problems for row in report.rows) or report.problems:
        screen.note("`schedules report` tells the problems.", style="yellow")


def show_report(report: ScheduleReport, screen: Screen) -> None:
    """Each schedule with all that is known, then the hosts."""
    screen.document(
        {
            "moment": str(report.moment),
            "schedules": [_document(row) for row in report.rows],
            "hosts": [_host(report, index) for index in range(len(report.hosts))],
            "leader": None
            if report.leader is None
            else {"host": report.leader[0], "token": report.leader[1]},
            "zone_data": report.zone_data,
            "problems": list(report.problems),
        }
    )
    for row in report.rows:
        screen.line(row.name, style="bold")
        told = _document(row) | {"last_run": None if row.last_run is None else _run_text(row.last_run)}
        for name, value in told.items():
            if value not in (None, "", []) and name not in {"schedule", "problems"}:
                screen.line(f"  {name.replace('_', ' ')}: {value}")
        for problem in row.problems:
            screen.line(f"  problem: {problem}", style="red")
    screen.line("")
    for host in report.hosts:
        leads = " (leads)" if report.leader is not None and report.leader[0] == host.host else ""
        screen.line(
            f"host {host.host}{leads}: last tick {instant_text(host.ticked)}, zones {host.zone_data}, "
            f"clock {host.ahead_seconds:+.3f} s"
        )
    for problem in report.problems:
        screen.line(f"problem: {problem}", style="red")


def show_history(runs: Sequence[RunRecord], actions: Sequence[RecordedAction], screen: Screen) -> None:
    """Runs, then what was done."""
    screen.document(
        {"runs": [run_document(run) for run in runs], "actions": [_action(each) for each in actions]}
    )
    if not runs and not actions:
        screen.line("Nothing is known of this schedule; `schedules list` shows those that there are.")
        return
    screen.table(
        ["Run", "Slot", "Cause", "Attempt", "Started", "Ended", "Outcome", "Detail"],
        [
            (
                str(run.run_id),
                instant_text(run.nominal),
                run.cause.value,
                run.attempt,
                instant_text(run.started),
                instant_text(run.ended),
                run.outcome or "not ended",
                ": ".join(each for each in (run.code, run.detail) if each),
            )
            for run in runs
        ],
        whole=["Run", "Slot"],
    )
    screen.line("")
    screen.table(
        ["When", "What", "Who", "Why", "Detail"],
        [
            (instant_text(each.occurred), each.kind.value, each.actor, each.reason, each.detail)
            for each in actions
        ],
        whole=["When"],
    )


def run_document(run: RunRecord) -> dict[str, Any]:
    """One run for programs; times are exact, in UTC."""
    return {
        "run_id": str(run.run_id),
        "schedule": run.name,
        "nominal": str(run.nominal),
        "cause": run.cause.value,
        "job_id": run.job_id,
        "attempt": run.attempt,
        "staged": str(run.staged),
        "started": None if run.started is None else str(run.started),
        "ended": None if run.ended is None else str(run.ended),
        "outcome": run.outcome,
        "code": run.code,
        "detail": run.detail,
    }


def _document(row: ScheduleRow) -> dict[str, Any]:
    schedule, state = row.schedule, row.state
    declaration = None if schedule is None else schedule.declaration
    return {
        "schedule": row.name,
        "state": _state(row),
        "module": declaration.module if declaration else state.module if state else None,
        "description": declaration.description if declaration else None,
        "configured_by": declaration.source if declaration else None,
        "override_source": schedule.override_source if schedule else None,
        "critical": declaration.critical if declaration else bool(state and state.critical),
        "trigger": _trigger(row),
        "misfire": declaration.misfire.value if declaration else None,
        "overlap": declaration.overlap.value if declaration else None,
        "next_fire": str(state.next_fire) if state and state.next_fire else None,
        "lag_seconds": row.lag_seconds,
        "last_run": run_document(row.last_run) if row.last_run else None,
        "last_success": str(state.last_success) if state and state.last_success else None,
        "fired": state.fired if state else 0,
        "misfired": state.misfired if state else 0,
        "overlapped": state.overlapped if state else 0,
        "owner": state.host if state else None,
        "fencing_number": state.fencing_number if state else None,
        "problems": list(row.problems),
    }


def _run_text(run: RunRecord) -> str:
    return f"{run.outcome or 'not ended'}, slot {run.nominal}, {run.cause}, run {run.run_id}"


def _state(row: ScheduleRow) -> str:
    state = row.state
    if state is None:
        return "not stored"
    if not state.declared:
        return "removed"
    if state.paused:
        return "paused"
    return "enabled" if state.enabled else "disabled"


def _trigger(row: ScheduleRow) -> str | None:
    if row.state is not None and row.state.trigger_text is not None:
        return row.state.trigger_text
    trigger = None if row.schedule is None else row.schedule.trigger
    return None if trigger is None else trigger.describe()


def _host(report: ScheduleReport, index: int) -> dict[str, Any]:
    host = report.hosts[index]
    return {
        "host": host.host,
        "started": str(host.started),
        "ticked": str(host.ticked),
        "zone_data": host.zone_data,
        "ahead_seconds": host.ahead_seconds,
        "live": host in report.live_hosts,
    }


def _leader(report: ScheduleReport) -> dict[str, Any] | None:
    return None if report.leader is None else dict(zip(("host", "fencing_token"), report.leader, strict=True))


def _action(action: RecordedAction) -> dict[str, Any]:
    return {
        "schedule": action.name,
        "kind": action.kind.value,
        "actor": action.actor,
        "reason": action.reason,
        "detail": action.detail,
        "occurred": str(action.occurred),
    }
