"""An App whose only consumer does nothing, for measurements in processes of their own."""

from dataclasses import dataclass

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.backlog import CONTRACT_NAME
from benchmarks.bench_queue import CONSUMER
from inbox import Consumer, HandlerContext
from relay import App, add_messaging_tables, read_settings
from uow import Contracts, Event

metadata = MetaData()
contracts = Contracts()
sink = Consumer(CONSUMER)
add_messaging_tables(metadata)


@contracts.event(CONTRACT_NAME, version=1)
@dataclass(frozen=True, kw_only=True)
class Measured(Event):
    """What the backlog is made of."""

    customer: str
    amount_cents: int


@sink.handles(Measured)
async def take(event: Measured, context: HandlerContext) -> None:
    """Do nothing."""


def make_app() -> App:
    """The App that SELFMANAGED_DATABASE_URL and SELFMANAGED_BROKER_URL describe."""
    settings = read_settings()
    if settings.database_url is None:
        raise ValueError("SELFMANAGED_DATABASE_URL is not set")
    return App(
        engine=create_async_engine(settings.database_url),
        metadata=metadata,
        contracts=contracts,
        broker=settings.broker_url,
        consumers=[sink],
        options=settings.options,
    )
