"""An App checks the schedules of its modules and what its deployment changes of them, all at once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.declaring.override import ScheduleOverrides
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.hosting.options import ScheduleOptions
from jobs.schedule.storing.table import SchedulesNotMappedError
from relay.app import App, AppConfigurationError
from relay.schema import add_messaging_tables
from uow.contracts import Contracts

HOME = Path(__file__).parents[2]
LEFT_OUT = "there are schedules, but the metadata has no tables for them"


def module(name: str = "files", **fields: Any) -> ScheduleModule:
    made = ScheduleModule(name)

    @made.schedule(**{"name": f"{name}.cleanup", "cron": "0 4 * * *"} | fields)
    async def clean(context: ScheduleContext) -> None:
        pass

    return made


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, Any]:
    metadata = MetaData()
    add_messaging_tables(metadata)
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}")
    return {"engine": engine, "metadata": metadata, "contracts": Contracts()}


def without(**left_out: bool) -> MetaData:
    metadata = MetaData()
    add_messaging_tables(metadata, **left_out)
    return metadata


def problems(parts: dict[str, Any], **changes: Any) -> tuple[str, ...]:
    with pytest.raises(AppConfigurationError) as caught:
        App(**(parts | changes))
    return caught.value.problems


def test_the_schedules_of_all_modules_are_in_force_with_the_changes_of_the_deployment(
    parts: dict[str, Any],
) -> None:
    overrides = ScheduleOverrides(source="environment", variables={"FILES_CLEANUP__CRON": "0 5 * * *"})
    app = App(**parts, schedules=[module("mail"), module()], schedule_overrides=[overrides])
    declared = app.schedules.declared
    assert list(declared) == ["files.cleanup", "mail.cleanup"]
    assert declared["files.cleanup"].declaration.cron == "0 5 * * *"
    assert declared["files.cleanup"].override_source == "environment"
    assert declared["mail.cleanup"].override_source is None


def test_an_app_without_schedules_has_a_client_that_shows_none(parts: dict[str, Any]) -> None:
    assert dict(App(**parts).schedules.declared) == {}


def test_every_fault_of_the_schedules_is_told_beside_those_of_the_app(parts: dict[str, Any]) -> None:
    files = module(cron="61 * * * *", time_zone="Europe/Berlinn")
    files.declare(ScheduleDeclaration(name="files.scan", module="files"))
    overrides = ScheduleOverrides(source="values.yaml", values={"file.cleanup": {"enabled": False}})
    found = problems(parts, schedules=[files], schedule_overrides=[overrides], environment="developmnt")
    for told in (
        "unknown environment 'developmnt'",
        "schedule 'files.cleanup': cron '61 * * * *'",
        "schedule 'files.cleanup': time zone",
        "schedule 'files.scan': has no executor",
        "schedule 'files.scan': is enabled, but has neither cron nor interval",
        "override by values.yaml: there is no such schedule; did you mean 'files.cleanup'?",
    ):
        assert len([problem for problem in found if told in problem]) == 1, (told, found)


def test_objects_of_other_kinds_are_told(parts: dict[str, Any]) -> None:
    assert problems(parts, schedules=["files"], schedule_overrides=[{"files.cleanup": {}}]) == (
        "schedules must be ScheduleModule objects, not str",
        "schedule_overrides must be ScheduleOverrides objects, not dict",
    )


@pytest.mark.parametrize("left_out", [{"schedules": False}, {"jobs": False}])
def test_schedules_without_tables_are_refused(parts: dict[str, Any], left_out: dict[str, bool]) -> None:
    (problem,) = problems(parts, metadata=without(**left_out), schedules=[module()])
    assert problem.startswith(LEFT_OUT)
    assert "add_messaging_tables(metadata) without jobs=False and schedules=False" in problem


@pytest.mark.parametrize("left_out", [{"schedules": False}, {"jobs": False}])
def test_without_tables_there_is_nothing_to_look_at(parts: dict[str, Any], left_out: dict[str, bool]) -> None:
    app = App(**(parts | {"metadata": without(**left_out)}))
    with pytest.raises(SchedulesNotMappedError, match="without schedules=False"):
        _ = app.schedules


def test_options_of_hosts_are_read_and_checked_with_the_others(parts: dict[str, Any]) -> None:
    app = App(**parts, options={"schedules": {"tick_seconds": 2.5, "enabled": False}})
    assert app.options.schedules == ScheduleOptions(tick_seconds=2.5, enabled=False)
    (problem,) = problems(parts, options={"schedules": {"tick_seconds": 31}})
    assert "tick_seconds must be at most 30, not 31" in problem


def test_a_process_without_schedules_loads_no_cron_library_and_one_with_them_does() -> None:
    code = (
        "import json, sys\n"
        "from sqlalchemy import MetaData\n"
        "from sqlalchemy.ext.asyncio import create_async_engine\n"
        "from relay.app import App; from relay.schema import add_messaging_tables\n"
        "from uow.contracts import Contracts\n"
        "m = MetaData(); add_messaging_tables(m)\n"
        "engine = create_async_engine('sqlite+aiosqlite:///x.db')\n"
        "parts = dict(engine=engine, metadata=m, contracts=Contracts())\n"
        "App(**parts).schedules, App(**parts).unit_of_work()\n"
        "before = 'croniter' in sys.modules\n"
        "from jobs.schedule import ScheduleModule\n"
        "module = ScheduleModule('files')\n"
        "async def clean(context): pass\n"
        "module.schedule(name='files.cleanup', cron='0 4 * * *')(clean)\n"
        "App(**parts, schedules=[module])\n"
        "print(json.dumps([before, 'croniter' in sys.modules]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True
    )
    assert json.loads(result.stdout) == [False, True]
