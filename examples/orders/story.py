"""What `make demo` tells, step by step."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from sqlalchemy.schema import DropSchema

from examples.orders.app import app, engine, settings
from examples.orders.facts import Facts, jobs_of_executor, read_facts
from examples.orders.measurement import count_outcomes
from examples.orders.program import Program, ProgramFailedError, run_command
from examples.orders.report import Expected, show_jobs, show_report, verify_sums
from examples.orders.tables import metadata
from uow.sql.step import run_step

T = TypeVar("T")

PATIENCE_SECONDS = 90
APP = "examples.orders.app:app"

# On SQLite a transaction that only reads need not wait for those that write.
_READING = engine.execution_options(sqlite_begin="DEFERRED")


class Story:
    """One run of the service: `orders` is the file of orders, `directory` takes the logs of the processes."""

    def __init__(self, *, directory: Path, orders: Path) -> None:
        self._directory = directory
        self._orders = orders
        self._expected = Expected.of(orders)
        self._console = Console(soft_wrap=True, highlight=False)
        self._programs = contextlib.ExitStack()
        self._running: list[Program] = []
        self._began = time.monotonic()

    def tell(self) -> int:
        """Run everything; the exit code of the demo."""
        try:
            agrees = asyncio.run(self._tell())
        except ProgramFailedError as error:
            self._console.print(f"[red]{escape(str(error))}[/red]\nAll logs are in {self._directory}")
            return 1
        seconds = time.monotonic() - self._began
        if not agrees:
            self._console.print(f"[red]The sums do not agree.[/red] All logs are in {self._directory}")
            return 1
        self._console.print(f"[green]All sums agree[/green] after {seconds:.0f} s. Logs: {self._directory}")
        return 0

    async def _tell(self) -> bool:
        with self._programs:
            self._prepare()
            relay = self._start("relay", "-m", "relay", "relay", APP)
            billing = self._start("billing", "-m", "relay", "consume", APP, "--only", "billing")
            shipping = self._start("shipping", "-m", "relay", "consume", APP, "--only", "shipping")
            producer = self._start("place_orders", "-m", "examples.orders.place_orders", str(self._orders))
            billing = await self._kill_and_restart(billing)
            executor = await self._lose_an_executor()
            await self._operate()
            self._fire_by_hand()
            await self._wait_for_all(producer)
            self._step("Stop")
            programs = (relay, billing, shipping, executor)
            for program in programs:
                program.stop()
            for program in programs:
                program.wait(timeout_seconds=30)
                self._say(f"{program.name} stopped gracefully after SIGTERM")
        facts = await self._facts()
        self._step("Report")
        show_report(self._console, facts, count_outcomes(self._directory / "metrics"), dead_lettered=1)
        show_jobs(self._console, facts)
        agrees = verify_sums(self._console, facts, self._expected)
        await self._clean_up(keep=not agrees)
        return agrees

    def _prepare(self) -> None:
        self._step("Prepare")
        self._say(f"database {app.database_display}")
        self._say(f"broker   {app.broker_display}")
        self._command("-m", "examples.orders.prepare")
        if settings.broker_url != "local:":
            self._command("-m", "relay", "topology", "declare", APP)
        self._step("Start: one producer, a relay and two consumers, each a process of its own")

    async def _kill_and_restart(self, billing: Program) -> Program:
        facts = await self._wait(
            "a third of the invoices", lambda f: f.invoices >= self._expected.orders // 3
        )
        billing.kill()
        self._step(f"Kill billing (SIGKILL) after {facts.invoices} of {self._expected.orders} invoices")
        facts = await self._facts()
        self._say(f"{facts.in_hand} orders were in its hands; nothing of them is half done")
        self._say("Its receipts are leased for 3 s; the new process takes them over when that is up")
        return self._start("billing", "-m", "relay", "consume", APP, "--only", "billing")

    async def _lose_an_executor(self) -> Program:
        facts = await self._facts()
        self._step(f"{facts.jobs} invoices wait to be rendered, as jobs: start two executors")
        killed, survivor = (
            self._start(f"executor-{number}", "-m", "relay", "jobs", APP) for number in (1, 2)
        )
        done, in_hand = await self._freeze_at_work(killed)
        killed.kill()
        self._running.remove(killed)
        self._step(f"Kill {killed.name} (SIGKILL): jobs done {done}, in its hands {in_hand}")
        self._say(f"What was in its hands is leased for 5 s; then {survivor.name} begins new attempts")
        return survivor

    async def _freeze_at_work(self, executor: Program) -> tuple[int, int]:
        """Freeze the process in the middle of its work; how many jobs it has done and has in its hands."""

        async def look() -> tuple[int, int]:
            return await run_step(_READING, partial(jobs_of_executor, pid=executor.pid))

        while True:
            await self._until(f"work of {executor.name}", look, all)
            executor.freeze()  # what is seen now stays so
            if all(seen := await look()):
                return seen
            executor.thaw()

    async def _operate(self) -> None:
        await self._wait("a message that cannot be handled", lambda f: f.dead_lettered == 1)
        self._step("One message is dead-lettered, the others go on: look, repair, replay")
        self._command("-m", "relay", "failed", "list", APP, show=True)
        failed = await app.failed.list()  # the same in Python
        self._say(
            "The log of billing says that no tax rate is known for AQ (Antarctica). Enter it, then replay:"
        )
        self._command("-m", "examples.orders.enter_tax_rate", "AQ", "0")
        self._command("-m", "relay", "failed", "replay", APP, failed.messages[0].failure_id, show=True)

    def _fire_by_hand(self) -> None:
        self._step("The clean-up is due every hour, and is wanted now")
        reason = ("--reason", "inventory tomorrow")
        self._command("-m", "relay", "schedules", "trigger", APP, "orders.clean-up", *reason, show=True)

    async def _wait_for_all(self, producer: Program) -> None:
        self._step("Wait for the rest")
        producer.wait(timeout_seconds=PATIENCE_SECONDS)
        self._say(producer.tail(1))
        facts = await self._wait("all orders", lambda f: f.settled(self._expected.orders))
        self._say(f"{facts.invoices} orders are billed, rendered, packed and enclosed, the poisoned one too")

    async def _wait(self, what: str, reached: Callable[[Facts], bool]) -> Facts:
        return await self._until(what, self._facts, reached)

    async def _until(self, what: str, look: Callable[[], Awaitable[T]], reached: Callable[[T], bool]) -> T:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached(seen := await look()):
            for program in self._running:
                program.check_alive()
            if time.monotonic() > deadline:
                raise ProgramFailedError(f"{what} did not come in {PATIENCE_SECONDS} s; at last: {seen}")
            await asyncio.sleep(0.05)
        return seen

    async def _facts(self) -> Facts:
        return await run_step(_READING, read_facts)

    def _start(self, name: str, *arguments: str) -> Program:
        program = self._programs.enter_context(
            Program(name, *arguments, log_directory=self._directory)
        ).start()
        self._running = [other for other in self._running if other.name != name]
        if name != "place_orders":  # the only one that ends by itself
            self._running.append(program)
        self._console.print(f"  [dim]$ python {escape(' '.join(arguments))}[/dim]   pid {program.pid}")
        return program

    def _command(self, *arguments: str, show: bool = False) -> None:
        self._console.print(f"  [dim]$ python {escape(' '.join(arguments))}[/dim]")
        printed = run_command(*arguments)
        if show:
            self._console.print(escape(printed.rstrip()))

    def _step(self, title: str) -> None:
        seconds = time.monotonic() - self._began
        self._console.print(f"\n[bold]{title}[/bold] [dim]({seconds:.1f} s)[/dim]")

    def _say(self, text: str) -> None:
        self._console.print(f"  {escape(text)}")

    async def _clean_up(self, *, keep: bool) -> None:
        if metadata.schema and not keep:
            async with engine.begin() as connection:
                await connection.run_sync(metadata.drop_all)
                await connection.execute(DropSchema(metadata.schema))
        if settings.broker_url != "local:" and not keep:
            from examples.orders.queues import remove_queues  # noqa: PLC0415 - loads kombu

            names = [consumer.name for consumer in app.consumers]
            remove_queues(settings.broker_url, app.options.broker, names)
        await app.close()
        await engine.dispose()
