"""Looking after schedules on the command line: what is shown and changed, and the code it ends with."""

from pathlib import Path

import pytest

from tests.support.schedule_line_shop import ScheduleShop

REASON = ("--reason", "the disk is full")


@pytest.fixture
def shop(tmp_path: Path) -> ScheduleShop:
    shop = ScheduleShop(tmp_path)
    shop.create_tables()
    return shop


def test_a_schedule_is_triggered_fails_is_retried_and_told_on_every_database(
    database_url: str, tmp_path: Path
) -> None:
    shop = ScheduleShop(tmp_path, database=database_url)
    shop.create_tables()
    triggered = shop.schedules("trigger", "files.cleanup", *REASON, "--operator", "ana", "--json")
    assert (triggered.code, triggered.document["schedule"]) == (0, "files.cleanup")
    run_id = triggered.document["run_id"]
    shop.execute(run_id)
    (run,) = shop.schedules("history", "files.cleanup", "--json").document["runs"]
    assert (run["outcome"], run["code"], run["cause"]) == ("failed", "disk_full", "manual")
    shown = shop.schedules("history", "files.cleanup").out
    assert "disk_full: no room for [red]the list" in shown

    (tmp_path / "repaired").touch()
    assert shop.schedules("retry", run_id, *REASON, "--operator", "ben").code == 0
    assert shop.schedules("retry", run_id, *REASON).code == 9
    shop.execute(run_id)
    history = shop.schedules("history", "files.cleanup", "--json").document
    assert [(run["outcome"], run["detail"]) for run in history["runs"]] == [("succeeded", "nothing left")]
    done = [(each["kind"], each["actor"], each["reason"]) for each in history["actions"]]
    assert ("retried", "ben", "the disk is full") in done
    assert ("triggered", "ana", "the disk is full") in done


def test_a_paused_schedule_has_no_slot_until_it_is_resumed(shop: ScheduleShop) -> None:
    shop.schedules("trigger", "files.cleanup", *REASON)  # stores it, as a host would
    assert shop.schedules("pause", "files.cleanup", *REASON, "--json").document["result"] == "paused"
    assert shop.schedules("pause", "files.cleanup", *REASON, "--json").document["result"] == "unchanged"
    (row,) = [
        each
        for each in shop.schedules("list", "--json").document["schedules"]
        if each["schedule"] == "files.cleanup"
    ]
    assert (row["state"], row["next_fire"]) == ("paused", None)
    assert shop.schedules("resume", "files.cleanup", *REASON).code == 0
    (row,) = [
        each
        for each in shop.schedules("list", "--json").document["schedules"]
        if each["schedule"] == "files.cleanup"
    ]
    assert (row["state"], row["next_fire"] is None) == ("enabled", False)


@pytest.mark.parametrize("command", ["trigger", "pause", "resume"])
def test_a_name_that_nobody_declares_is_told_with_the_one_it_resembles(
    shop: ScheduleShop, command: str
) -> None:
    refused = shop.schedules(command, "files.clenup", *REASON)
    assert (refused.code, "did you mean 'files.cleanup'?" in refused.err) == (8, True)


@pytest.mark.parametrize("command", ["trigger", "pause", "resume"])
def test_nothing_is_done_without_a_reason(shop: ScheduleShop, command: str) -> None:
    assert shop.schedules(command, "files.cleanup").code == 2
    blank = shop.schedules(command, "files.cleanup", "--reason", " ")
    assert (blank.code, "reason" in blank.err) == (2, True)
    assert shop.schedules("history", "files.cleanup", "--json").document == {"runs": [], "actions": []}


def test_a_run_that_there_is_not_is_told(shop: ScheduleShop) -> None:
    unknown = shop.schedules("retry", "8eeea683-f303-5d73-ae40-30a702988b4a", *REASON)
    assert (unknown.code, "there is no run" in unknown.err) == (8, True)
    assert shop.schedules("retry", "not-an-id", *REASON).code == 2


def test_the_report_ends_with_a_code_of_its_own_while_no_host_has_started(shop: ScheduleShop) -> None:
    told = shop.schedules("report")
    assert told.code == 17
    assert "no host has told of itself" in told.out
    assert "it is declared but not stored" in told.out
    assert "removes [red]orphans" in told.out


def test_a_release_is_held_up_until_the_critical_schedule_has_succeeded(shop: ScheduleShop) -> None:
    held_up = shop.run("check", "shop:app", "--release", "--json")
    assert held_up.code == 17
    assert any("no host has told" in problem for problem in held_up.document["release_problems"])
    run_id = shop.schedules("trigger", "files.settlement", *REASON, "--json").document["run_id"]
    told = shop.run("check", "shop:app", "--release").out
    assert "not fit: schedule files.settlement: it is critical, and has never succeeded" in told
    shop.execute(run_id)
    told = shop.run("check", "shop:app", "--release").out
    assert "never succeeded" not in told
    assert shop.run("check", "shop:app").code == 0


def test_an_override_of_the_environment_is_told_and_a_wrong_one_refused(
    shop: ScheduleShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFMANAGED_SCHEDULES__FILES_CLEANUP__INTERVAL", "15m")
    (row,) = [
        each
        for each in shop.schedules("list", "--json").document["schedules"]
        if each["schedule"] == "files.cleanup"
    ]
    assert (row["trigger"], row["override_source"]) == ("every 900 s", "environment")
    monkeypatch.setenv("SELFMANAGED_SCHEDULES__FILES_CLEANUP__INTERVAL", "soon")
    refused = shop.schedules("list")
    assert (refused.code, "files.cleanup" in refused.err, "duration" in refused.err) == (3, True, True)


def test_a_process_without_a_word_of_schedules_hosts_them_and_tells_who_it_is(shop: ScheduleShop) -> None:
    run_id = shop.schedules("trigger", "files.settlement", *REASON, "--json").document["run_id"]
    shop.execute(run_id)
    report = shop.schedules("report", "--json").document
    assert {row["schedule"]: row["state"] for row in report["schedules"]} == {
        "files.cleanup": "enabled",
        "files.settlement": "enabled",
    }
    assert all(row["next_fire"] for row in report["schedules"])
