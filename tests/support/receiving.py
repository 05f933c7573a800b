"""A consumer at work on a real database: business table, outbox, inbox and receivers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from inbox.context import HandlerContext
from inbox.handlers import Consumer, Handler
from inbox.options import ConsumerOptions, InboxOptions
from inbox.outcome import ConsumeOutcome
from inbox.participant import ReceiptParticipant
from inbox.receiver import Receiver
from outbox.participant import OutboxParticipant
from outbox.store import OutboxStore
from outbox.table import add_outbox_table
from tests.support.inbox import Inbox
from uow.contracts import Contracts
from uow.event import Event
from uow.message import Message
from uow.participant import Participant
from uow.unit import SelfManagedUnitOfWork

contracts = Contracts()
metadata = MetaData()
outbox_table = add_outbox_table(metadata)
payment = Table(
    "payment",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("note", String(200)),
)


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    """What handlers get."""

    number: int
    customer: str = "Zoë"


@dataclass(frozen=True, kw_only=True)
class PaymentMade(Event):
    """A follow-up."""

    number: int


contracts.register(OrderPlaced, name="orders.placed", version=1)
contracts.register(PaymentMade, name="payments.made", version=1)


@dataclass
class Bench:
    """Builds receivers over one inbox; `outcomes` lists what was counted."""

    inbox: Inbox
    options: InboxOptions = field(default_factory=InboxOptions)
    participants: list[Participant] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sessions = async_sessionmaker(self.inbox.engine)
        self.outbox = OutboxStore(outbox_table)

    def unit(self) -> SelfManagedUnitOfWork:
        return SelfManagedUnitOfWork(self.sessions, self.participants_of_unit())

    def participants_of_unit(self) -> Sequence[Participant]:
        return (
            *self.participants,
            ReceiptParticipant(self.inbox.store),
            OutboxParticipant(contracts, self.outbox),
        )

    def receiver(
        self,
        handler: Handler[OrderPlaced],
        *,
        name: str = "billing",
        consumer_options: ConsumerOptions | None = None,
        engine: AsyncEngine | None = None,
        unit: Callable[[], SelfManagedUnitOfWork] | None = None,
    ) -> Receiver:
        consumer = Consumer(name, options=consumer_options)
        consumer.handles(OrderPlaced)(handler)
        return Receiver(
            consumer,
            engine=engine or self.inbox.engine,
            unit_of_work=unit or self.unit,
            store=self.inbox.store,
            contracts=contracts,
            options=self.options,
            provider="local",
        )

    async def run(self, handler: Handler[OrderPlaced], message: Message, **options: Any) -> ConsumeOutcome:
        """Acquire the message and hand it to a receiver with this handler."""
        receiver = self.receiver(handler, **options)
        return await receiver.handle(await self.inbox.acquired(receiver.consumer.name, message))

    async def payments(self) -> list[int]:
        rows = await self.inbox.step(
            lambda connection: connection.execute(select(payment.c.number).order_by(payment.c.number)).all()
        )
        return [number for (number,) in rows]

    async def enqueued(self) -> int:
        return await self.inbox.step(
            lambda connection: connection.execute(select(func.count()).select_from(outbox_table)).scalar_one()
        )


def order(number: int = 1, *, id: UUID | None = None, **trace: str) -> Message:
    """The message of an order, with trace fields."""
    event = OrderPlaced(number=number) if id is None else OrderPlaced(number=number, id=id)
    encoded = contracts.encode(event)
    return Message(
        id=encoded.id,
        contract_name=encoded.contract_name,
        contract_version=encoded.contract_version,
        occurred_at=encoded.occurred_at,
        payload=encoded.payload,
        **trace,
    )


async def pay(event: OrderPlaced, context: HandlerContext) -> None:
    """The usual handler: one business row and one follow-up event."""
    await context.session.execute(insert(payment).values(number=event.number))
    context.enqueue(PaymentMade(number=event.number))
