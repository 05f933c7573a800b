"""No-op jobs drained by pgqueuer; prints how many a second.

    python pgqueuer_jobs.py postgresql://root@127.0.0.1/empty_database 10000 200

Run by the interpreter of an environment that has pgqueuer and asyncpg; the database must be empty.
"""

import asyncio
import json
import sys
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode


async def main(url: str, count: int, batch: int) -> None:
    async with asyncpg.create_pool(url, min_size=2, max_size=8) as pool:
        queuer = PgQueuer(AsyncpgPoolDriver(pool))
        await queuer.qm.queries.install()
        for first in range(0, count, 1000):
            many = min(1000, count - first)
            await queuer.qm.queries.enqueue(["noop"] * many, [b"{}"] * many, [0] * many)
        done = 0

        @queuer.entrypoint("noop")
        async def noop(job: Job) -> None:
            nonlocal done
            done += 1

        began = time.perf_counter()
        await queuer.qm.run(batch_size=batch, mode=QueueExecutionMode.drain)
        seconds = time.perf_counter() - began
        left = await pool.fetchval("SELECT count(*) FROM pgqueuer")
        if done != count or left:
            raise RuntimeError(f"{done} of {count} jobs were run, {left} are left")
        print(json.dumps({"jobs_per_second": count / seconds}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
