"""The tables of jobs, outbox and inbox with thousands of rows; the database knows of them what it is told."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, MetaData, Table, delete, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.options import InboxOptions
from inbox.store import InboxStore
from inbox.table import add_inbox_table
from jobs import JobStore, add_job_tables
from outbox import OutboxOptions, OutboxStore, add_outbox_table
from tests.support.databases import create_tables
from tests.support.jobs import submission
from tests.support.outbox import message
from uow.sql.clock import DatabaseClock
from uow.sql.dialect import database_of
from uow.sql.step import run_step
from uow.ticks import UtcInstant

QUEUES = ("mail", "reports", "exports")
CONSUMERS = ("audit", "billing", "shipping")
TABLES = ("jobs_job", "jobs_attempt", "outbox_message", "inbox_receipt")


@dataclass
class CrowdedTables:
    """All tables of one database with their stores; the moments of the rows are in no order.

    fill_percent: how full pages get on PostgreSQL, which takes few rows on many pages for many.
    """

    engine: AsyncEngine
    metadata: MetaData = field(default_factory=MetaData)
    fill_percent: int = 100
    moments: random.Random = field(default_factory=lambda: random.Random(1))

    def __post_init__(self) -> None:
        isolation = database_of(self.engine).claim_isolation
        if isolation is not None:
            self.engine = self.engine.execution_options(isolation_level=isolation)
        clock = DatabaseClock()
        self.job_tables = add_job_tables(self.metadata)
        self.jobs = JobStore(self.job_tables, clock=clock)
        self.outbox_table = add_outbox_table(self.metadata)
        self.outbox = OutboxStore(
            self.outbox_table, options=OutboxOptions(published_retention_seconds=60), clock=clock
        )
        self.inbox_table = add_inbox_table(self.metadata)
        self.inbox = InboxStore(
            self.inbox_table, options=InboxOptions(processed_retention_seconds=60), clock=clock
        )

    async def create(self) -> "CrowdedTables":
        """Create the tables; PostgreSQL looks at them only when it is asked to."""
        await create_tables(self.engine, self.metadata)
        if self.engine.dialect.name == "postgresql":
            async with self.engine.begin() as connection:
                options = "autovacuum_enabled = false"
                if self.fill_percent < 100:
                    options += f", fillfactor = {self.fill_percent}"
                for table in TABLES:
                    await connection.execute(text(f"ALTER TABLE {table} SET ({options})"))
        return self

    async def analyze(self) -> None:
        """Let the database know what is stored at this moment."""
        statement = {"sqlite": "ANALYZE", "postgresql": f"ANALYZE {', '.join(TABLES)}"}
        everywhere = f"ANALYZE TABLE {', '.join(TABLES)}"
        async with self.engine.connect() as connection:
            await connection.execute(text(statement.get(self.engine.dialect.name, everywhere)))
            await connection.commit()

    async def add(self, count: int, *, finished: bool) -> None:
        """As many rows to each of job, outbox and inbox: finished days ago, or due for minutes."""

        def fill(connection: Connection) -> None:
            self._add_jobs(connection, count, finished=finished)
            self._add_messages(connection, count, finished=finished)
            self._add_receipts(connection, count, finished=finished)

        await run_step(self.engine, fill)

    async def start_jobs(self, count: int) -> None:
        """Start so many of the due jobs, and let their leases expire."""
        job = self.job_tables.job

        def start(connection: Connection) -> None:
            left = count
            while left > 0:
                limit = min(left, 1000)
                left -= len(self.jobs.start_many(connection, QUEUES, limit=limit, owner="me").started)
            lost = update(job).where(job.c.state == "running")
            connection.execute(lost.values(lease_expires_ticks=DatabaseClock().ticks_after(-60)))

        await run_step(self.engine, start)

    def _add_jobs(self, connection: Connection, count: int, *, finished: bool) -> None:
        self.jobs.submit_many(connection, [submission("template")])
        template = _taken(connection, self.job_tables.job, self.job_tables.job.c.job_id == "template")
        ended = {"state": "succeeded", "queued_in": None, "attempt_count": 1} if finished else {}
        rows = []
        for _ in range(count):
            queue = self.moments.choice(QUEUES)
            ticks = UtcInstant.from_datetime(self._moment(finished=finished))
            row = {**template, "job_id": uuid4().hex, "queue": queue, "queued_in": queue}
            row |= {"next_run_ticks": ticks, "completed_ticks": ticks if finished else None, **ended}
            rows.append(row)
        connection.execute(insert(self.job_tables.job), rows)
        if finished:
            self._add_attempts(connection, rows)

    def _add_attempts(self, connection: Connection, jobs: list[dict[str, Any]]) -> None:
        fixed = {"ordinal": 1, "state": "succeeded", "owner": "me", "started_ticks": UtcInstant(1)}
        rows = [{key: job[key] for key in ("scope_hash", "job_id")} | fixed for job in jobs]
        connection.execute(insert(self.job_tables.attempt), [{**row, "token": uuid4()} for row in rows])

    def _add_messages(self, connection: Connection, count: int, *, finished: bool) -> None:
        one = message()
        self.outbox.append(connection, [one])
        template = _taken(connection, self.outbox_table, self.outbox_table.c.event_id == one.id)
        del template["sequence"]
        rows = [{**template, "event_id": uuid4(), **self._state(finished, "published")} for _ in range(count)]
        # Returning something, lest the driver send row by row.
        connection.execute(insert(self.outbox_table).returning(self.outbox_table.c.sequence), rows)

    def _add_receipts(self, connection: Connection, count: int, *, finished: bool) -> None:
        self.inbox.record(connection, [("template", message())])
        template = _taken(connection, self.inbox_table, self.inbox_table.c.consumer == "template")
        rows: list[dict[str, Any]] = [
            {
                **template,
                "message_id": uuid4(),
                "consumer": self.moments.choice(CONSUMERS),
                **self._state(finished, "processed"),
            }
            for _ in range(count)
        ]
        connection.execute(insert(self.inbox_table), rows)

    def _state(self, finished: bool, state: str) -> dict[str, Any]:
        moment = self._moment(finished=finished)
        if finished:
            return {"state": state, "next_attempt_at": None, "completed_at": moment}
        return {"next_attempt_at": moment}

    def _moment(self, *, finished: bool) -> datetime:
        age = timedelta(seconds=self.moments.randrange(60, 3600)) + timedelta(days=2 if finished else 0)
        return datetime.now(UTC) - age


def _taken(connection: Connection, table: Table, which: ColumnElement[bool]) -> dict[str, Any]:
    """What the row is made of that `which` means, which is deleted."""
    row = dict(connection.execute(select(table).where(which)).mappings().one())
    connection.execute(delete(table).where(which))
    return row
