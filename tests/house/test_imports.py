"""Who may import whom."""

import json
import subprocess
import sys

import pytest

from tests.house.source import PACKAGES, ROOT, dotted_name, imports_of, modules

BROKER_LIBRARIES = ("kombu", "amqp", "vine", "redis")
WEB_AND_TERMINAL = ("typer", "rich", "fastapi", "starlette", "flask", "aiohttp")
CRON_LIBRARIES = ("croniter", "dateutil", "cronsim", "apscheduler", "aiocron")
# Only the process that keeps schedules imports it, by its own name.
SCHEDULES = "jobs.schedule"


def test_import_linter_keeps_every_contract() -> None:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    run = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 broken" in run.stdout


def test_only_the_sql_ground_imports_the_dialects_of_sqlalchemy() -> None:
    assert _importers_of("sqlalchemy.dialects", but_not="uow.sql") == []


def test_only_the_settings_read_the_environment() -> None:
    readers = []
    for path in modules(*PACKAGES):
        name = dotted_name(path)
        text = path.read_text(encoding="utf-8")
        if name != "relay.settings" and any(word in text for word in ("os.environ", "os.getenv", "environb")):
            readers.append(name)
        if name != "relay.settings" and {"os.environ", "os.getenv"} & set(imports_of(path)):
            readers.append(name)
    assert readers == []


def test_outside_is_never_imported_by_the_packages() -> None:
    for outside in ("examples", "tests", "benchmarks", "scripts"):
        assert _importers_of(outside, but_not="") == []


@pytest.mark.parametrize("packages", [("uow", "outbox", "jobs"), ("uow", "outbox", "inbox", "jobs")])
def test_a_process_that_only_writes_loads_neither_broker_nor_cron_nor_web(packages: tuple[str, ...]) -> None:
    names = [dotted_name(path) for path in modules(*packages)]
    writing = [name for name in names if name != "uow.testing" and not _is_below(SCHEDULES, name)]
    loaded = _loaded_by(writing)
    forbidden = {*BROKER_LIBRARIES, *WEB_AND_TERMINAL, *CRON_LIBRARIES, "relay"}
    assert sorted(forbidden & loaded) == []
    assert sorted(name for name in loaded if _is_below(SCHEDULES, name)) == []


def test_schedules_load_the_cron_library_by_one_module_alone() -> None:
    assert _importers_of("croniter", but_not="jobs.schedule.occurrence.wall_pattern") == []
    assert "croniter" in _loaded_by(["jobs.schedule.occurrence.wall_pattern"])


def test_the_composition_root_loads_libraries_for_brokers_and_cron_only_when_they_are_needed() -> None:
    later = {"kombu", "amqp", "typer", "fastapi", *CRON_LIBRARIES}
    assert sorted(later & _loaded_by(["relay", "relay.app"])) == []


def _importers_of(module: str, *, but_not: str) -> list[str]:
    found = []
    for path in modules(*PACKAGES):
        name = dotted_name(path)
        if but_not and (name == but_not or name.startswith(but_not + ".")):
            continue
        if any(imported == module or imported.startswith(module + ".") for imported in imports_of(path)):
            found.append(name)
    return found


def _is_below(package: str, name: str) -> bool:
    return name == package or name.startswith(package + ".")


def _loaded_by(names: list[str]) -> set[str]:
    """The modules of a fresh interpreter after it has imported `names`."""
    program = (
        "import importlib, json, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))
