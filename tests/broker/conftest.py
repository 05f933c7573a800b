"""One suite over all kinds of brokers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.broker import Publisher
from tests.support import services
from tests.support.brokers import (
    ALL_KINDS,
    KINDS,
    RABBITMQ,
    WITH_QUORUM,
    BrokerGround,
    BrokerKind,
    broker_ground,
)

# kombu's models use a loader that SQLAlchemy 2.1 no longer likes
_KOMBU_IS_OLDER = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
with_quorum = pytest.mark.parametrize("kind", WITH_QUORUM, ids=lambda kind: kind.name)
"""Also on quorum queues."""

over_all_kinds = pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=kind.name, marks=_KOMBU_IS_OLDER) for kind in ALL_KINDS]
)
"""For the heart of the suite: also on quorum queues and on kombu's SQLAlchemy transport."""


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> BrokerKind:
    """Each kind in turn."""
    assert isinstance(request.param, BrokerKind)
    return request.param


@pytest.fixture
async def ground(kind: BrokerKind, tmp_path: Path) -> AsyncIterator[BrokerGround]:
    """A topology of its own on that kind."""
    async with broker_ground(kind, tmp_path) as ground:
        yield ground


@pytest.fixture
async def rabbit(tmp_path: Path) -> AsyncIterator[BrokerGround]:
    """A topology of its own on RabbitMQ."""
    async with broker_ground(RABBITMQ, tmp_path) as ground:
        yield ground


@pytest.fixture
async def publisher(ground: BrokerGround) -> Publisher:
    """A publisher; the broker closes it."""
    return await ground.broker.open_publisher()


@pytest.fixture
def rabbit_url() -> str:
    """Where RabbitMQ is."""
    return services.RABBITMQ.require()


@pytest.fixture
def redis_url() -> str:
    """Where Redis is."""
    return services.REDIS.require()
