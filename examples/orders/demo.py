"""The whole service as separate processes, two of them killed midway; `make demo` runs this.

    python -m examples.orders.demo
    python -m examples.orders.demo --database postgresql+asyncpg://... --broker amqp://...

Every run has a directory of its own below .demo/, and on a server a schema and queues of its own, which are
removed after a good end. The exit code is 0 only if every sum agrees.
"""

import argparse
import os
import secrets
import sys
import time
from pathlib import Path

SAMPLE = Path(__file__).with_name("orders.ndjson")


def main() -> int:
    """Prepare the environment that all processes of this run share, then tell the story."""
    parser = argparse.ArgumentParser(description="Run the order service in separate processes.")
    parser.add_argument("--database", default="", help="SQLAlchemy URL; default: a SQLite file of this run")
    parser.add_argument("--broker", default="local:", help="local: or a kombu URL (default: local:)")
    parser.add_argument("--orders", type=Path, default=SAMPLE, help="newline-delimited JSON orders")
    parser.add_argument("--directory", type=Path, default=Path(".demo"), help="where runs are kept")
    arguments = parser.parse_args()

    run_name = f"orders_{time.strftime('%H%M%S')}_{secrets.token_hex(3)}"
    directory = arguments.directory.resolve() / run_name
    directory.mkdir(parents=True)
    on_server = arguments.database and "sqlite" not in arguments.database
    os.environ.update(
        SELFMANAGED_DATABASE_URL=arguments.database or f"sqlite+aiosqlite:///{directory / 'orders.db'}",
        SELFMANAGED_BROKER_URL=arguments.broker,
        SELFMANAGED_BROKER__EXCHANGE=run_name,
        SELFMANAGED_BROKER__QUEUE_PREFIX=run_name,
        ORDERS_SCHEMA=run_name if on_server else "",
        ORDERS_METRICS=str(directory / "metrics"),
    )

    # Only now: these modules read the environment when they are imported.
    from examples.orders.story import Story  # noqa: PLC0415

    return Story(directory=directory, orders=arguments.orders.resolve()).tell()


if __name__ == "__main__":
    sys.exit(main())
