"""The application on disk with schedules, as the command line meets it."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

from jobs.schedule import SCOPE
from tests.support.shop import Finished, Shop

SCHEDULES = """
from datetime import timedelta

from jobs.schedule import ScheduleModule, ScheduleOverrides, ScheduleResult
from relay import read_settings

files = ScheduleModule("Files")


@files.schedule(name="files.cleanup", interval=timedelta(days=1), description="removes [red]orphans")
async def clean(context):
    if not Path("repaired").exists():
        return ScheduleResult.failed("disk_full", "no room for [red]the list")
    return ScheduleResult.ok("nothing left")


@files.schedule(
    name="files.settlement", cron="0 4 * * *", critical=True, succeed_within=timedelta(days=2)
)
async def settle(context):
    pass


"""


class ScheduleShop(Shop):
    """Schedules: files.cleanup fails until the file `repaired` exists, files.settlement is critical."""

    def __init__(self, directory: Path, **parts: Any) -> None:
        super().__init__(directory, **parts)
        source = directory / "shop.py"
        head, create, tail = source.read_text().partition("def create_app")
        overrides = "[ScheduleOverrides(source='environment', variables=read_settings().schedules)]"
        with_schedules = tail.replace(
            "consumers=[", f"schedules=[files], schedule_overrides={overrides}, consumers=["
        )
        source.write_text(head + SCHEDULES + create + with_schedules)

    def schedules(self, command: str, *arguments: str) -> Finished:
        """Run `selfmanaged schedules COMMAND shop:app ...`."""
        return self.run("schedules", command, "shop:app", *arguments)

    def execute(self, *run_ids: str) -> None:
        """Host and execute in this process until the jobs of these runs are final and recorded."""

        async def execute(shop: Any) -> None:
            stop = asyncio.Event()
            executing = asyncio.create_task(shop.app.run_jobs(stop))
            async with asyncio.timeout(30):
                for run_id in map(UUID, run_ids):
                    while not await self._has_ended(shop, run_id):
                        await asyncio.sleep(0.01)
                stop.set()
                await executing

        self._work(execute)

    @staticmethod
    async def _has_ended(shop: Any, run_id: UUID) -> bool:
        for name in shop.app.schedules.declared:
            for run in await shop.app.schedules.runs(name):
                if run.run_id == run_id and run.outcome is not None:
                    return (await shop.app.jobs.find(SCOPE, run.job_id)) is not None
        return False
