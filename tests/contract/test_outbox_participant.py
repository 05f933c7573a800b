"""Events are serialized when they are enqueued and stored in one statement."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox import EventConflictError, OutboxParticipant
from tests.support.outbox import Outbox
from tests.support.statements import recorded_statements
from uow.contracts import Contracts
from uow.event import Event


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    lines: list[str] = field(default_factory=list)


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    return await Outbox(engine).create()


@pytest.fixture
def participant(outbox: Outbox) -> OutboxParticipant:
    contracts = Contracts()
    contracts.register(OrderPlaced, name="orders.placed", version=1)
    return OutboxParticipant(contracts, outbox.store)


async def test_what_was_staged_is_what_is_stored_whatever_becomes_of_the_event(
    outbox: Outbox, participant: OutboxParticipant
) -> None:
    event = OrderPlaced(lines=["pen"])
    staged = participant.stage(event, ordering_key="k")
    event.lines.append("ink")
    await outbox.step(participant.write, [staged])
    (claimed,) = (await outbox.claim()).rows
    assert claimed.message == staged.value
    assert '"lines":["pen"]' in claimed.message.payload
    assert claimed.message.occurred_at == event.occurred_at

    other = participant.stage(OrderPlaced(id=event.id, occurred_at=event.occurred_at))
    with pytest.raises(EventConflictError):
        await outbox.step(participant.write, [other])


async def test_many_events_are_written_by_one_statement(
    outbox: Outbox, participant: OutboxParticipant
) -> None:
    staged = [participant.stage(OrderPlaced()) for _ in range(200)]
    with recorded_statements(outbox.engine) as statements:
        await outbox.step(participant.write, staged)
    assert len(statements) == 1
