"""The application on disk with handlers of jobs, as the command line meets it."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from sqlalchemy import delete

from jobs import job_tables
from tests.support.shop import Finished, Shop

SCOPE = "tenant-1"

HANDLERS = '''
import asyncio

from jobs import JobFailure, JobRegistry

registry = JobRegistry()


@registry.handler("reports.build")
async def build(context):
    """Goes on when the test has made the file that it waits for."""
    for percent, file in ((10, "half"), (50, "full")):
        await context.progress(percent, f"waits for {file}")
        while not Path(file).exists():
            await asyncio.sleep(0.01)
    return "report-1"


@registry.handler("reports.quick")
async def quick(context):
    print(f"quick {context.job_id}", flush=True)


@registry.handler("reports.break", version=2)
async def fail(context):
    raise JobFailure("no_paper", "the tray is [red]empty\\x1b[2J")


'''


class JobShop(Shop):
    """Handlers: reports.build waits for the files half and full, reports.quick succeeds, reports.break
    (version 2) fails."""

    def __init__(self, directory: Path, **parts: Any) -> None:
        super().__init__(directory, **parts)
        self._begun: list[subprocess.Popen[str]] = []
        source = directory / "shop.py"
        head, create, tail = source.read_text().partition("def create_app")
        with_jobs = tail.replace("consumers=[", "jobs=[registry], consumers=[")
        source.write_text(head + HANDLERS + create + with_jobs)

    def jobs(self, command: str, *arguments: str, scope: str = SCOPE, stdin: str = "") -> Finished:
        """Run `selfmanaged jobs COMMAND shop:app ... --scope SCOPE`."""
        return self.run("jobs", command, "shop:app", *arguments, "--scope", scope, stdin=stdin)

    def submit(self, job_id: str, handler: str = "reports.quick", *options: str) -> None:
        """Submit a job, which must succeed."""
        done = self.jobs("submit", handler, "--id", job_id, *options)
        assert done.code == 0, done.err

    def job(self, job_id: str) -> Any:
        """A job as `jobs show --json` gives it."""
        return self.jobs("show", job_id, "--json").document

    def execute(self, *job_ids: str) -> None:
        """Run an executor in this process until these jobs are final."""

        async def execute(shop: Any) -> None:
            stop = asyncio.Event()
            executing = asyncio.create_task(shop.app.run_jobs(stop))
            async with asyncio.timeout(30):
                for job_id in job_ids:
                    await shop.app.jobs.wait(SCOPE, job_id, poll_seconds=0.01)
                stop.set()
                await executing

        self._work(execute)

    def forget(self, job_id: str) -> None:
        """Delete a job, as retention does once it is final."""

        async def forget(shop: Any) -> None:
            job = job_tables(shop.metadata).job
            async with shop.app.engine.begin() as connection:
                await connection.execute(delete(job).where(job.c.job_id == job_id))

        self._work(forget)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Run a command in a process of its own, until `end_all` at the latest."""
        process = self.start(*arguments)
        self._begun.append(process)
        return process

    def end_all(self) -> None:
        """Kill what still runs."""
        for process in self._begun:
            process.kill()
            process.communicate()
