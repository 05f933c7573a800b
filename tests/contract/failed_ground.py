"""Messages that failed, on a database of their own, for the tests of what operators do about them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import MetaData, update
from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.store import InboxStore
from inbox.table import inbox_table
from outbox.settlement import Settlement
from outbox.store import OutboxStore
from outbox.table import outbox_table
from relay.admin.failed import FailedMessages
from relay.admin.failure_id import FailureId
from relay.admin.operation import Operation, OperationLog, operation_table
from relay.schema import add_messaging_tables
from tests.support.databases import create_tables
from uow.contracts import Contracts
from uow.event import Event
from uow.message import Message
from uow.sql.step import run_step


@dataclass(frozen=True, kw_only=True)
class Placed(Event):
    number: int


def contracts() -> Contracts:
    made = Contracts()
    made.register(Placed, name="orders.placed", version=1)
    return made


class Ground:
    """Stores and operations on one database, with ways to make messages fail."""

    def __init__(self, engine: AsyncEngine) -> None:
        metadata = MetaData()
        add_messaging_tables(metadata)
        self.metadata = metadata
        self.engine = engine
        self.contracts = contracts()
        self.outbox = OutboxStore(outbox_table(metadata))
        self.inbox = InboxStore(inbox_table(metadata))
        self.operations = OperationLog(operation_table(metadata))
        self.woken = 0
        self.failed = FailedMessages(
            engine,
            contracts=self.contracts,
            outbox=self.outbox,
            inbox=self.inbox,
            operations=self.operations,
            wake=self._count_wake,
        )

    def _count_wake(self) -> None:
        self.woken += 1

    async def create(self) -> "Ground":
        await create_tables(self.engine, self.metadata)
        return self

    def message(self, number: int = 1) -> Message:
        return self.contracts.encode(Placed(number=number))

    async def dead_event(self, message: Message | None = None, *, code: str = "unroutable") -> FailureId:
        """An event that could not be published."""
        dead = message or self.message()

        def step(connection: Any) -> None:
            self.outbox.append(connection, [dead])
            claim = self.outbox.claim(connection)
            (row,) = [each for each in claim.rows if each.message.id == dead.id]
            self.outbox.settle(
                connection, claim.token, [Settlement.dead_letter(row.sequence, error_code=code)]
            )

        await run_step(self.engine, step)
        return FailureId.outbox(dead.id)

    async def dead_receipt(
        self, message: Message | None = None, *, consumer: str = "billing", code: str = "handler_error"
    ) -> FailureId:
        """A message that a consumer could not handle."""
        dead = message or self.message()

        def step(connection: Any) -> None:
            (answer,) = self.inbox.acquire(connection, consumer, [dead], token=uuid4())
            assert answer.receipt is not None
            assert self.inbox.dead_letter(
                connection, answer.receipt.lease, error_code=code, error_detail="shop.BadOrder: no such thing"
            )

        await run_step(self.engine, step)
        return FailureId.inbox(dead.id, consumer)

    async def set_payload(self, message_id: UUID, payload: str) -> None:
        """Spoil or repair a stored payload, as a migration would."""

        def step(connection: Any) -> None:
            for table, key in (
                (outbox_table(self.metadata), "event_id"),
                (inbox_table(self.metadata), "message_id"),
            ):
                connection.execute(update(table).where(table.c[key] == message_id).values(payload=payload))

        await run_step(self.engine, step)

    async def recorded(self) -> list[Operation]:
        """What operators did, newest first."""
        return await run_step(self.engine, self.operations.recent)
