"""An outbox on a real database with a clock that tests move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID, uuid4

from sqlalchemy import Connection, MetaData, RowMapping, Table, select
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import Claim, OutboxOptions, OutboxStore, Settlement, SettleReport, add_outbox_table
from tests.support.databases import create_tables
from uow.message import Message
from uow.sql.clock import OperationalClock, PinnedClock
from uow.sql.step import run_step
from uow.ticks import UtcInstant

START = datetime(2026, 1, 1, tzinfo=UTC)
SEVERAL_WRITERS = ("postgresql", "mariadb")
"""Kinds of databases on which two transactions write at once; SQLite makes the second wait to begin."""

P = ParamSpec("P")
T = TypeVar("T")


def message(*, key: str | None = None, id: UUID | None = None, **fields: Any) -> Message:
    """A message that differs from all others by its id alone."""
    values: dict[str, Any] = {
        "contract_name": "orders.placed",
        "contract_version": 1,
        "occurred_at": UtcInstant(639_028_224_000_000_007),
        "payload": '{"amount":"12.50"}',
    }
    return Message(id=id or uuid4(), ordering_key=key, **(values | fields))


def messages(count: int, *, key: str | None = None) -> list[Message]:
    return [message(key=key) for _ in range(count)]


@dataclass
class Outbox:
    """A store with an engine of its own, each call one committed step."""

    engine: AsyncEngine
    options: OutboxOptions = field(default_factory=OutboxOptions)
    clock: OperationalClock = field(default_factory=lambda: PinnedClock(START))
    metadata: MetaData = field(default_factory=MetaData)

    def __post_init__(self) -> None:
        self.table: Table = add_outbox_table(self.metadata)
        self.store = OutboxStore(self.table, options=self.options, clock=self.clock)

    async def create(self) -> "Outbox":
        await create_tables(self.engine, self.metadata)
        return self

    def advance(self, seconds: float) -> None:
        assert isinstance(self.clock, PinnedClock)
        self.clock.advance(seconds)

    async def step(self, verb: Callable[Concatenate[Connection, P], T], *args: P.args, **rest: P.kwargs) -> T:
        return await run_step(self.engine, lambda connection: verb(connection, *args, **rest))

    async def append(self, *added: Message) -> list[Message]:
        await self.step(self.store.append, added)
        return list(added)

    async def claim(self, limit: int | None = None) -> Claim:
        return await self.step(self.store.claim, limit=limit)

    async def settle(self, claim: Claim, *settlements: Settlement) -> SettleReport:
        return await self.step(self.store.settle, claim.token, settlements)

    async def publish(self, claim: Claim) -> SettleReport:
        return await self.settle(claim, *(Settlement.published(each) for each in claim.sequences))

    async def retry(self, claim: Claim, *, delay_seconds: float = 5) -> SettleReport:
        return await self.settle(
            claim,
            *(
                Settlement.retry(each, delay_seconds=delay_seconds, error_code="nack")
                for each in claim.sequences
            ),
        )

    async def dead_letter(self, claim: Claim, error_code: str = "unroutable") -> SettleReport:
        return await self.settle(
            claim, *(Settlement.dead_letter(each, error_code=error_code) for each in claim.sequences)
        )

    async def row(self, one: Message) -> RowMapping:
        """All columns of one event."""
        query = select(self.table).where(self.table.c.event_id == one.id)
        return await self.step(lambda connection: connection.execute(query).mappings().one())

    async def states(self, some: Sequence[Message]) -> list[str]:
        return [(await self.row(one))["state"] for one in some]


def ids(claim: Claim) -> list[UUID]:
    return [row.message.id for row in claim.rows]
