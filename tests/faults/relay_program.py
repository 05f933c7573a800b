"""A relay in a process of its own, to be killed at one point: `python -m tests.faults.relay_program`.

Arguments: database URL, the point, the file that plays the broker. Prints a line when it is at the point,
and waits there for its end.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from sqlalchemy import Connection

from outbox.options import OutboxOptions
from outbox.settlement import Settlement, SettleReport
from outbox.store import OutboxStore
from relay.broker import PublishResult
from relay.publishing.publisher import OutboxRelay
from tests.support.databases import engine_for
from tests.support.relaying import QUICK, ScriptedOutlet, confirm, outbox
from uow.message import Message

OPTIONS = OutboxOptions(batch_size=10, lease_seconds=3)


class StoreToDieIn(OutboxStore):
    """Never comes to settle."""

    def settle(self, connection: Connection, token: UUID, settlements: Sequence[Settlement]) -> SettleReport:
        _here()
        time.sleep(3600)
        raise AssertionError("not killed")


def _here() -> None:
    sys.stdout.write("here\n")
    sys.stdout.flush()


async def _relay(url: str, point: str, file: Path) -> None:
    async def behave(messages: Sequence[Message]) -> Sequence[PublishResult]:
        if point != "claimed":
            deliver(file, messages)
        if point != "confirmed":
            _here()
            await asyncio.Event().wait()
        return await confirm(messages)

    store = (StoreToDieIn if point == "confirmed" else OutboxStore)(outbox, options=OPTIONS)
    async with engine_for(url) as engine:
        await OutboxRelay(engine, store, ScriptedOutlet(behave), options=QUICK).run()


def deliver(file: Path, messages: Sequence[Message]) -> None:
    """What the broker has is in the file, whatever becomes of its sender."""
    with file.open("a") as lines:
        lines.writelines(f"{message.id.hex}\n" for message in messages)


if __name__ == "__main__":
    asyncio.run(_relay(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
