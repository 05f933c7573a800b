"""A web service that only enqueues: the request's rows and its event are one commit; no broker is loaded.

pip install fastapi httpx
python examples/fastapi_service.py           # sends itself two requests and ends
uvicorn examples.fastapi_service:api         # or serve it
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from outbox import outbox_table
from relay import App, add_messaging_tables
from uow import Contracts, Event, SelfManagedUnitOfWork, prepare_sqlite

metadata = MetaData()
contracts = Contracts()
book = Table("book", metadata, Column("number", Integer, primary_key=True), Column("title", String(200)))
add_messaging_tables(metadata)


@contracts.event("library.book-added", version=1)
@dataclass(frozen=True, kw_only=True)
class BookAdded(Event):
    number: int
    title: str


directory = tempfile.TemporaryDirectory()
engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory.name) / 'library.db'}")
prepare_sqlite(engine)
app = App(engine=engine, metadata=metadata, contracts=contracts)


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    yield
    await engine.dispose()


def unit_of_work() -> SelfManagedUnitOfWork:
    """One unit per request."""
    return app.unit_of_work()


Unit = Annotated[SelfManagedUnitOfWork, Depends(unit_of_work)]
api = FastAPI(lifespan=lifespan)


@api.put("/books/{number}", status_code=201)
async def add_book(number: int, title: str, unit: Unit) -> dict[str, int]:
    try:
        async with unit:
            await unit.session.execute(insert(book).values(number=number, title=title))
            unit.enqueue(BookAdded(number=number, title=title))
    except IntegrityError:
        raise HTTPException(409, "there is such a book already") from None
    return {"number": number}


async def main() -> None:
    transport = httpx.ASGITransport(api)
    async with lifespan(api), httpx.AsyncClient(transport=transport, base_url="http://library") as client:
        for _ in range(2):
            response = await client.put("/books/1", params={"title": "Война и мир"})
            print(response.status_code, response.json())
        async with app.unit_of_work() as unit:
            events = await unit.session.scalar(select(func.count()).select_from(outbox_table(metadata)))
        print(f"{events} event waits for the relay; kombu loaded: {'kombu' in sys.modules}")
    directory.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
