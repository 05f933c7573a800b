"""Batches in a process of its own, to be killed at one point: `python -m tests.faults.cursor_program`.

Arguments: database URL, `together` (effects and cursor in one unit) or `elsewhere` (effects in a unit of
their own), and the point: `applied` or `moved`, both of the second batch. Prints a line when it is there, and
waits for its end.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

from jobs.schedule.batching.batch import Batch
from jobs.schedule.batching.batches import run_batches
from tests.support.batching import Numbers, Orders, cursor_on
from tests.support.databases import engine_for

LAST = 10
SIZE = 3


def _stand_still() -> None:
    sys.stdout.write("here\n")
    sys.stdout.flush()
    time.sleep(3600)
    raise AssertionError("not killed")


async def run(url: str, how: str, point: str | None = None) -> Orders:
    """A run that stands still at `point`, or ends when there is none; what it applied."""

    def when_applied(numbers: Sequence[int]) -> None:
        if point == "applied" and SIZE + 1 in numbers:
            _stand_still()

    async with engine_for(url) as engine:
        orders = Orders(engine, before=when_applied)
        numbers = Numbers(LAST)

        async def read(position: Any, size: int) -> Batch[int]:
            if point == "moved" and position == 2 * SIZE:
                _stand_still()
            return await numbers(position, size)

        cursor = cursor_on(engine)
        if how == "together":
            await run_batches(read, orders, cursor, size=SIZE, unit_of_work=orders.unit_of_work)
        else:
            await run_batches(read, orders.alone, cursor, size=SIZE)
    return orders


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
