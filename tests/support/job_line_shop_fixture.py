"""The application with jobs on SQLite, its tables created and its processes ended after the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.job_line_shop import JobShop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[JobShop]:
    shop = JobShop(tmp_path)
    shop.create_tables()
    yield shop
    shop.end_all()
