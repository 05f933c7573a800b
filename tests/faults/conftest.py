"""Databases and a broker with what the tests of faults need in them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.brokers import RABBITMQ, BrokerGround, broker_ground
from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.executing import Calls, Executing
from tests.support.executing import metadata as executing_metadata
from tests.support.relaying import metadata
from tests.support.scheduling import Scheduling
from tests.support.scheduling import metadata as scheduling_metadata


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """A PostgreSQL database with the tables of messaging."""
    async with temporary_database_url("postgresql", tmp_path) as url:
        async with engine_for(url) as engine:
            await create_tables(engine, metadata)
        yield url


@pytest.fixture
async def engine(url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on it."""
    async with engine_for(url) as engine:
        yield engine


@pytest.fixture
async def rabbit(tmp_path: Path) -> AsyncIterator[BrokerGround]:
    """An exchange and a queue of their own on RabbitMQ."""
    async with broker_ground(RABBITMQ, tmp_path) as ground:
        await ground.declare()
        yield ground


@pytest.fixture
async def executing(database_url: str, tmp_path: Path) -> AsyncIterator[Executing]:
    """Executors of jobs on each database, none of which has run yet."""
    async with engine_for(database_url) as engine:
        await create_tables(engine, executing_metadata)
        yield Executing(database_url, engine, Calls(tmp_path / "calls"))


@pytest.fixture
async def scheduling(database_url: str, tmp_path: Path) -> AsyncIterator[Scheduling]:
    """Hosts of schedules on each database, none of which has run yet."""
    async with engine_for(database_url) as engine:
        await create_tables(engine, scheduling_metadata)
        yield Scheduling(database_url, engine, Calls(tmp_path / "calls"))
