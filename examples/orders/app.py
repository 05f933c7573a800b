"""The composition root: the one place where database, broker, contracts, consumers and jobs meet.

Where it runs is decided by two variables, SELFMANAGED_DATABASE_URL and SELFMANAGED_BROKER_URL; without them
it uses a SQLite file and no broker.
"""

import os
from dataclasses import replace
from pathlib import Path

from sqlalchemy.ext.asyncio import create_async_engine

from examples.orders.billing import billing
from examples.orders.cleaning import cleaning
from examples.orders.events import contracts
from examples.orders.invoicing import invoicing
from examples.orders.measurement import METRICS_VARIABLE, write_measurements_to
from examples.orders.shipping import shipping
from examples.orders.tables import metadata
from inbox import InboxOptions
from jobs import JobOptions
from relay import App, read_settings
from uow import Backoff, prepare_sqlite

settings = read_settings()
if METRICS_VARIABLE in os.environ:
    write_measurements_to(Path(os.environ[METRICS_VARIABLE]))

engine = create_async_engine(settings.database_url or "sqlite+aiosqlite:///orders.db")
prepare_sqlite(engine)

# Shorter than in production, so that a demo of less than a minute sees retries and the work of a killed
# process return: its receipts and jobs when their leases are up, and on Redis its deliveries when the
# acknowledgement timeout is.
options = replace(
    settings.options,
    inbox=InboxOptions(
        lease_seconds=3,
        max_retry_attempts=2,
        backoff=Backoff(initial_seconds=0.2, maximum_seconds=1),
        processing_timeout_seconds=5,
        busy_wait_limit_seconds=2,
    ),
    jobs=JobOptions(lease_seconds=5),
    executor=replace(settings.options.executor, concurrency=4, poll_interval_seconds=0.5),
    relay=replace(settings.options.relay, poll_interval_seconds=0.5),
    broker=replace(settings.options.broker, acknowledgement_timeout_seconds=10),
)
app = App(
    engine=engine,
    metadata=metadata,
    contracts=contracts,
    broker=settings.broker_url,
    consumers=[billing, shipping],
    jobs=[invoicing],
    schedules=[cleaning],
    options=options,
    environment="development",
)
