"""Reads orders, one JSON object a line, and places each in a unit of work of its own.

    python -m examples.orders.place_orders examples/orders/orders.ndjson

Run again after a crash it places only what is missing: the identity of an event comes from its order number,
so the same order is the same event.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import insert, select

from examples.orders.app import app
from examples.orders.events import OrderPlaced
from examples.orders.tables import customer_order
from uow import UtcInstant

ORDER_IDENTITIES = UUID("5f0f7b0e-5b43-4c67-9d0e-2f1b7f6f6a11")


def event_of(order: dict[str, Any]) -> OrderPlaced:
    """The event of one order as it stands in the file."""
    return OrderPlaced(
        id=uuid5(ORDER_IDENTITIES, order["number"]),
        occurred_at=UtcInstant.parse(order["placed_at"]),
        order_number=order["number"],
        customer=order["customer"],
        country=order["country"],
        amount_cents=order["amount_cents"],
    )


async def place(order: dict[str, Any]) -> bool:
    """Store the order and its event in one commit; False when an earlier run has placed it."""
    async with app.unit_of_work() as unit:
        number = order["number"]
        known = select(customer_order.c.order_number).where(customer_order.c.order_number == number)
        if await unit.session.scalar(known) is not None:
            return False
        await unit.session.execute(
            insert(customer_order).values(
                order_number=number,
                customer=order["customer"],
                country=order["country"],
                amount_cents=order["amount_cents"],
            )
        )
        unit.enqueue(event_of(order))
    return True


async def place_all(lines: Iterable[str]) -> None:
    """Place one order a line and say how many."""
    placed = known = 0
    for line in lines:
        if await place(json.loads(line)):
            placed += 1
        else:
            known += 1
    print(f"placed {placed} orders" + (f", {known} were there already" if known else ""))
    await app.engine.dispose()


if __name__ == "__main__":
    asyncio.run(place_all(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
