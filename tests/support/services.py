"""Which servers can be reached, and what to say when one cannot."""

import os
import socket
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

REQUIRE_SERVICES = os.environ.get("REQUIRE_SERVICES") == "1"


@dataclass(frozen=True)
class Service:
    """A server that tests use, its URL and how a person gets it."""

    name: str
    variable: str
    default_url: str

    @property
    def url(self) -> str:
        return os.environ.get(self.variable, self.default_url)

    def reachable(self) -> bool:
        address = urlsplit(self.url)
        try:
            with socket.create_connection((address.hostname or "127.0.0.1", address.port or 0), timeout=2):
                return True
        except OSError:
            return False

    def require(self) -> str:
        """Its URL; skips the test when it is away, or fails it with REQUIRE_SERVICES=1."""
        if not self.reachable():
            _do_without(f"{self.name} is not reachable; `make services` starts it, or set {self.variable}")
        return self.url


def _do_without(line: str) -> NoReturn:
    import pytest  # the programs that tests start need none of it

    if REQUIRE_SERVICES:
        pytest.fail(line)
    pytest.skip(line)


POSTGRESQL = Service("PostgreSQL", "TEST_POSTGRESQL_URL", "postgresql+asyncpg://root@127.0.0.1:5432/test")
MARIADB = Service("MariaDB", "TEST_MARIADB_URL", "mysql+asyncmy://root@127.0.0.1:3306/test")
REDIS = Service("Redis", "TEST_REDIS_URL", "redis://127.0.0.1:6379/0")
RABBITMQ = Service("RabbitMQ", "TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672//")
