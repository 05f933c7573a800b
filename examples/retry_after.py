"""A handler may say "again later" or "never": what the attempt wrote is undone, the message goes on.

python examples/retry_after.py
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import MetaData, select
from sqlalchemy.ext.asyncio import create_async_engine

from inbox import Consumer, HandlerContext, inbox_table
from relay import App, add_messaging_tables
from uow import Contracts, Event, Reject, RetryAfter, prepare_sqlite

metadata = MetaData()
contracts = Contracts()
bank = Consumer("bank")
add_messaging_tables(metadata)


@contracts.event("shop.payment-requested", version=1)
@dataclass(frozen=True, kw_only=True)
class PaymentRequested(Event):
    amount: int


@bank.handles(PaymentRequested)
async def pay(event: PaymentRequested, context: HandlerContext) -> None:
    if event.amount == 0:
        print(f"attempt {context.attempt}: a payment of 0 makes no sense, rejected")
        raise Reject("nothing to pay")
    if context.attempt < 3:
        print(f"attempt {context.attempt}: the bank is closed, again in 0.2 s")
        raise RetryAfter(0.2, "the bank is closed")
    print(f"attempt {context.attempt}: paid {event.amount}")


async def handle_one(app: App, amount: int) -> None:
    """Store one event, then run relay and consumers in this process until its receipt is finished."""
    async with app.unit_of_work() as unit:
        event = PaymentRequested(amount=amount)
        unit.enqueue(event)
    stop = asyncio.Event()
    running = asyncio.create_task(app.run(stop))
    receipt = inbox_table(metadata)
    outcome = select(receipt.c.state, receipt.c.attempt_count).where(
        receipt.c.message_id == event.id, receipt.c.completed_at.is_not(None)
    )
    async with asyncio.timeout(30):
        finished = None
        while finished is None:
            await asyncio.sleep(0.05)
            async with app.unit_of_work() as unit:
                finished = (await unit.session.execute(outcome)).one_or_none()
    stop.set()
    await running
    state, attempts = finished
    print(f"payment of {amount}: {state} after {attempts} attempt{'s' if attempts > 1 else ''}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory) / 'shop.db'}")
        prepare_sqlite(engine)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        app = App(engine=engine, metadata=metadata, contracts=contracts, broker="local:", consumers=[bank])
        await handle_one(app, 100)
        await handle_one(app, 0)
        await app.close()
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
