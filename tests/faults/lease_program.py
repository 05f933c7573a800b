"""A holder of a named lease in a process of its own, to be frozen: `python -m tests.faults.lease_program`.

Arguments: database URL and the file to wait for. It says `held {token}`; when the file is there it writes an
order under its guard, whatever it has heard of its lease by then, and says what became of that.
"""

import asyncio
import sys
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from jobs.schedule.leasing.held_lease import HeldLease
from jobs.schedule.leasing.lease_error import LeaseLostError
from jobs.schedule.leasing.named_lease import NamedLeases
from tests.support.databases import engine_for
from tests.support.unit_of_work import Order
from uow import SelfManagedUnitOfWork
from uow.sql.lease import LeaseStore, add_lease_table
from uow.sql.step import finish_despite_cancellation

SECONDS = 2.0

metadata = MetaData()
table = add_lease_table(metadata)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _hold(url: str, file: Path) -> None:
    async with engine_for(url) as engine:
        try:
            async with NamedLeases(engine, LeaseStore(table)).hold("month-end", seconds=SECONDS) as held:
                _say(f"held {held.token}")
                # It works on like a thread: no cancellation ends it.
                await finish_despite_cancellation(_write_once_there_is(file, engine, held))
        except LeaseLostError:
            _say("lost")


async def _write_once_there_is(file: Path, engine: AsyncEngine, held: HeldLease) -> None:
    while not file.exists():
        await asyncio.sleep(0.01)
    try:
        async with SelfManagedUnitOfWork(async_sessionmaker(engine, expire_on_commit=False)) as unit:
            unit.session.add(Order(id=held.token))
            await unit.session.flush()
            await held.guard(unit)
    except LeaseLostError:
        _say("refused")
    else:
        _say("written")


if __name__ == "__main__":
    asyncio.run(_hold(sys.argv[1], Path(sys.argv[2])))
