"""A small application on disk, as the command line meets one: a module with an App."""

import asyncio
import contextlib
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from relay.cli.program import program

HOME = Path(__file__).parents[2]

MODULE = """
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from inbox.handlers import Consumer
from relay.app import App
from relay.schema import add_messaging_tables
from uow.contracts import Contracts
from uow.event import Event

metadata, contracts = MetaData(), Contracts()
billing, shipping = Consumer("billing"), Consumer("shipping")
add_messaging_tables(metadata)


@contracts.event("shop.placed", version=1)
@dataclass(frozen=True, kw_only=True)
class Placed(Event):
    number: int
    note: str


@billing.handles(Placed)
async def bill(event, context):
    if event.number < 0 and not Path("repaired").exists():
        raise ValueError("cannot bill it")
    print(f"billed {event.number}", flush=True)


@shipping.handles(Placed)
async def ship(event, context):
    print(f"shipped {event.number}", flush=True)


def create_app():
    return App(
        engine=create_async_engine(DATABASE),
        metadata=metadata,
        contracts=contracts,
        broker=BROKER,
        consumers=[billing, shipping],
        options=OPTIONS,
        environment="development",
    )


app = create_app()
"""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Shop:
    """The application in a directory of its own, and ways to run commands on it."""

    def __init__(
        self,
        directory: Path,
        *,
        database: str | None = None,
        broker: str = "local:",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        database = database or f"sqlite+aiosqlite:///{directory / 'shop.db'}"
        settings = {"inbox": {"max_retry_attempts": 0}} | (options or {})
        head = f"DATABASE, BROKER, OPTIONS = {database!r}, {broker!r}, {settings!r}\n"
        (directory / "shop.py").write_text(head + MODULE)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "relay", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SELFMANAGED_")}
        return kept | {"PYTHONPATH": str(HOME), "COLUMNS": "120", "NO_COLOR": "1"}

    def run(self, *arguments: str, stdin: str = "", **variables: str) -> Finished:
        """Run a command in this process, as fast as that is; the application is imported anew."""
        with self._imported_anew():
            result = CliRunner().invoke(program, list(arguments), input=stdin, env=dict(variables))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Finished(result.exit_code, result.stdout, result.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Run a command in a process of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def create_tables(self) -> None:
        """Create all tables of the application."""
        self._work(_create_tables)

    def place(self, *numbers: int) -> None:
        """Create the tables and enqueue one event for each number; negative ones cannot be billed."""

        async def place(shop: Any) -> None:
            await _create_tables(shop)
            async with shop.app.unit_of_work() as unit:
                for number in numbers:
                    unit.enqueue(shop.Placed(number=number, note="SECRET PAYLOAD"))

        self._work(place)

    def _work(self, work: Callable[[Any], Awaitable[None]]) -> None:
        async def run(shop: Any) -> None:
            await work(shop)
            await shop.app.close()
            await shop.app.engine.dispose()

        with self._imported_anew():
            sys.path.insert(0, str(self.directory))
            asyncio.run(run(importlib.import_module("shop")))

    @contextlib.contextmanager
    def _imported_anew(self) -> Iterator[None]:
        modules, path = dict(sys.modules), list(sys.path)
        sys.modules.pop("shop", None)
        importlib.invalidate_caches()
        try:
            with contextlib.chdir(self.directory):
                yield
        finally:
            for name in set(sys.modules) - set(modules):
                origin = getattr(sys.modules[name], "__file__", None) or ""
                if origin.startswith(str(self.directory)):
                    del sys.modules[name]
            sys.path[:] = path


async def _create_tables(shop: Any) -> None:
    async with shop.app.engine.begin() as connection:
        await connection.run_sync(shop.metadata.create_all)


def read_line(stream: Any, containing: str, timeout_seconds: float = 30.0) -> str:
    """The next line of a process's output that contains a text."""
    found: list[str] = []

    def read() -> None:
        for line in stream:
            if containing in line:
                found.append(line)
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(timeout_seconds)
    assert found, f"no line with {containing!r} within {timeout_seconds} s"
    return found[0]
