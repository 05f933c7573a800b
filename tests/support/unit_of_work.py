"""What tests of the unit of work share: tables, a participant that writes one of them, and counts."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, Connection, Integer, String, Table, insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from uow.participant import Staged
from uow.sql.dialect import database_of
from uow.sql.transaction_status import current_transaction_id


class Model(DeclarativeBase):
    """The business tables of these tests."""


class Order(Model):
    """A business row."""

    __tablename__ = "customer_order"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    customer: Mapped[str] = mapped_column(String(40), default="Zoë")


note_table = Table(
    "note",
    Model.metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("text", String(200), nullable=False),
)


@dataclass(frozen=True)
class Note:
    """Something to stage."""

    id: int
    text: str = "hello"


class NoteConflictError(Exception):
    """Two notes with one id and different text."""


@dataclass
class NoteParticipant:
    """Writes staged notes into `table`, and remembers what it was asked and told."""

    table: Table = note_table
    asks_transaction_id: bool = False
    writes: list[tuple[int, ...]] = field(default_factory=list)
    told: list[int] = field(default_factory=list)

    def accepts(self, item: object) -> bool:
        return isinstance(item, Note)

    def stage(self, item: Any, **options: Any) -> Staged:
        value = {"id": item.id, "text": item.text}
        return Staged(key=item.id, content=item.text, value=value)

    def conflict(self, staged: Staged, earlier: Staged) -> Exception:
        return NoteConflictError(f"note {staged.key} was staged before with another text")

    def write(self, connection: Connection, staged: Sequence[Staged]) -> str | None:
        self.writes.append(tuple(each.key for each in staged))  # type: ignore[misc]
        connection.execute(insert(self.table), [each.value for each in staged])
        return current_transaction_id(connection) if self.asks_transaction_id else None

    def committed(self, staged: Sequence[Staged]) -> None:
        self.told += [each.key for each in staged]  # type: ignore[misc]


def checked_out(engine: AsyncEngine) -> int:
    """How many connections of its pool are in somebody's hands."""
    return int(engine.pool.checkedout())  # type: ignore[attr-defined]


async def stored(engine: AsyncEngine, table: Table | type[Model] = note_table) -> list[int]:
    """The ids in `table`, sorted."""
    source = table if isinstance(table, Table) else table.__table__
    # A reader of SQLite need not wait for a writer.
    async with engine.execution_options(sqlite_begin="DEFERRED").connect() as connection:
        return sorted((await connection.execute(select(source.c.id))).scalars())


async def nothing_open_on_server(engine: AsyncEngine, observer: AsyncEngine) -> bool:
    """Whether no session of `engine`'s database has a transaction open, asked through `observer`."""
    database = database_of(engine).name
    if database == "sqlite":
        return _write_lock_is_free(str(engine.url.database))
    if database == "postgresql":
        source = "pg_stat_activity WHERE datname = :name AND state LIKE 'idle in transaction%'"
    else:
        source = (
            "information_schema.innodb_trx t JOIN information_schema.processlist p"
            " ON p.id = t.trx_mysql_thread_id WHERE p.db = :name"
        )
    statement = text(f"SELECT count(*) FROM {source}")
    async with observer.connect() as connection:
        return (await connection.execute(statement, {"name": engine.url.database})).scalar_one() == 0


def _write_lock_is_free(path: str) -> bool:
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


class Interrupted:
    """Awaits `work` and cancels the running task at the `step`-th time that it would wait.

    late: the cancellation comes when what it waited for is done already, so that an answer gets lost.
    again: a second cancellation hits the next wait, which is usually one of the cleanup's.
    `steps` counts the waits, so a test knows when it has been at every one.
    """

    def __init__(
        self, work: Coroutine[Any, Any, Any], step: int, *, late: bool = False, again: bool = False
    ) -> None:
        self._work = work
        self._targets = {step, step + 1} if again else {step}
        self._late = late
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        iterator = self._work.__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waited_for = iterator.send(value) if error is None else iterator.throw(error)
            except StopIteration as finished:
                return finished.value
            self.steps += 1
            if self.steps in self._targets:
                self._cancel(waited_for)
            value = error = None
            try:
                value = yield waited_for
            except BaseException as thrown:
                error = thrown

    def _cancel(self, waited_for: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and isinstance(waited_for, asyncio.Future):
            # Runs before the task's own wake-up, which was not registered yet.
            waited_for.add_done_callback(lambda _future: task.cancel())
        else:
            task.cancel()
