"""Creates the tables of the demo and enters the tax rates, and what customers left behind.

    python -m examples.orders.prepare

A real service leaves this to its migrations; Alembic sees the framework's tables on the same MetaData.
"""

import asyncio

from sqlalchemy import insert
from sqlalchemy.schema import CreateSchema

from examples.orders.app import engine
from examples.orders.tables import basket, metadata, tax_rate

TAX_RATES = {
    "CN": 130, "CZ": 210, "DE": 190, "ES": 210, "FR": 200, "GB": 200, "GR": 240, "IE": 230,
    "IS": 240, "JP": 100, "KR": 100, "NG": 75, "PL": 230, "TR": 200, "VN": 100,
}  # fmt: skip
"""Per thousand. Nobody thought of Antarctica (AQ)."""


async def prepare() -> None:
    """Create everything that this run needs in the database."""
    async with engine.begin() as connection:
        if metadata.schema:
            await connection.execute(CreateSchema(metadata.schema))
        await connection.run_sync(metadata.create_all)
        rates = [{"country": country, "per_thousand": rate} for country, rate in TAX_RATES.items()]
        await connection.execute(insert(tax_rate), rates)
        baskets = [{"number": number, "abandoned": number % 2} for number in range(1, 7)]
        await connection.execute(insert(basket), baskets)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(prepare())
