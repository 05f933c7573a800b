"""The repair: enters a tax rate that was forgotten.

python -m examples.orders.enter_tax_rate AQ 0
"""

import asyncio
import sys

from sqlalchemy import insert

from examples.orders.app import app
from examples.orders.tables import tax_rate


async def enter(country: str, per_thousand: int) -> None:
    """Store the rate in a unit of work of its own; no event says so."""
    async with app.unit_of_work() as unit:
        await unit.session.execute(insert(tax_rate).values(country=country, per_thousand=per_thousand))
    await app.engine.dispose()


if __name__ == "__main__":
    asyncio.run(enter(sys.argv[1], int(sys.argv[2])))
