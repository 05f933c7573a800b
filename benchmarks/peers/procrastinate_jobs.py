"""No-op jobs drained by procrastinate; prints how many a second.

    python procrastinate_jobs.py postgresql://root@127.0.0.1/empty_database 10000 200

Run by the interpreter of an environment that has procrastinate; the database must be empty. It takes one job
a statement, so the last argument is how many run at once.
"""

import asyncio
import json
import sys
import time

import procrastinate


async def main(url: str, count: int, concurrency: int) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=10))
    done = 0

    @app.task(name="noop")
    async def noop() -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, count, 1000):
            await noop.batch_defer_async(*({} for _ in range(min(1000, count - first))))
        began = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=concurrency, install_signal_handlers=False)
        seconds = time.perf_counter() - began
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs were run")
    print(json.dumps({"jobs_per_second": count / seconds}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
