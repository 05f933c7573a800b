"""An inbox on a real database with a clock that tests move."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID, uuid4

from sqlalchemy import Connection, MetaData, Table, select
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.acquisition import AcquireStatus, Acquisition
from inbox.options import InboxOptions
from inbox.receipt import AcquiredReceipt, ReceiptKey
from inbox.store import InboxStore
from inbox.table import add_inbox_table
from tests.support.databases import create_tables
from uow.message import Message
from uow.sql.clock import OperationalClock, PinnedClock
from uow.sql.step import run_step
from uow.ticks import UtcInstant

START = datetime(2026, 1, 1, tzinfo=UTC)
P = ParamSpec("P")
T = TypeVar("T")


def message(payload: str = '{"amount":"12.50"}', *, id: UUID | None = None, **fields: object) -> Message:
    """A message that differs from all others by its id alone."""
    values: dict[str, object] = {
        "contract_name": "orders.placed",
        "contract_version": 1,
        "occurred_at": UtcInstant(639_028_224_000_000_007),
    }
    return Message(id=id or uuid4(), payload=payload, **(values | fields))  # type: ignore[arg-type]


@dataclass
class Inbox:
    """A store with an engine of its own, each call one committed step."""

    engine: AsyncEngine
    clock: PinnedClock = field(default_factory=lambda: PinnedClock(START))
    options: InboxOptions = field(default_factory=InboxOptions)
    metadata: MetaData = field(default_factory=MetaData)

    def __post_init__(self) -> None:
        self.table: Table = add_inbox_table(self.metadata)
        self.store = self.store_with(self.clock)

    def store_with(self, clock: OperationalClock) -> InboxStore:
        return InboxStore(self.table, options=self.options, clock=clock)

    async def create(self) -> "Inbox":
        await create_tables(self.engine, self.metadata)
        return self

    async def step(self, verb: Callable[Concatenate[Connection, P], T], *args: P.args, **rest: P.kwargs) -> T:
        return await run_step(self.engine, lambda connection: verb(connection, *args, **rest))

    async def acquire(self, consumer: str, *messages: Message) -> list[Acquisition]:
        return await self.step(self.store.acquire, consumer, messages)

    async def acquired(self, consumer: str, one: Message) -> AcquiredReceipt:
        """The receipt, which must be acquired."""
        (answer,) = await self.acquire(consumer, one)
        assert answer.receipt is not None, answer.status
        return answer.receipt

    async def status(self, consumer: str, one: Message) -> AcquireStatus:
        (answer,) = await self.acquire(consumer, one)
        return answer.status

    async def claim(self, *consumers: str, limit: int = 100) -> list[AcquiredReceipt]:
        return await self.step(self.store.claim, consumers, limit=limit)

    async def fail(self, receipt: AcquiredReceipt, *, delay_seconds: float = 5) -> bool:
        return await self.step(
            self.store.fail, receipt.lease, error_code="handler_error", delay_seconds=delay_seconds
        )

    async def dead_letter(self, receipt: AcquiredReceipt, *, error_code: str = "rejected") -> bool:
        return await self.step(self.store.dead_letter, receipt.lease, error_code=error_code)

    async def complete(self, receipt: AcquiredReceipt) -> bool:
        return await self.step(self.store.complete, receipt.lease) is not None

    async def rows(self) -> dict[ReceiptKey, dict[str, object]]:
        """All rows as they stand."""
        rows = await self.step(lambda connection: connection.execute(select(self.table)).mappings().all())
        return {ReceiptKey(row["message_id"], row["consumer"]): dict(row) for row in rows}

    async def row(self, receipt: AcquiredReceipt | ReceiptKey) -> dict[str, object]:
        key = receipt if isinstance(receipt, ReceiptKey) else receipt.key
        return (await self.rows())[key]


def statuses(answers: Collection[Acquisition]) -> list[AcquireStatus]:
    return [answer.status for answer in answers]
