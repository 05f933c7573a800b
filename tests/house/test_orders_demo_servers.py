"""The orders example on servers; a file of its own, so that it runs beside the one on SQLite."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.house.orders_demo import check_story, run_demo
from tests.support.databases import temporary_database_url
from tests.support.services import RABBITMQ


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
async def test_the_demo_ends_with_agreeing_sums_on_servers(kind: str, tmp_path: Path) -> None:
    broker = RABBITMQ.require()
    async with temporary_database_url(kind, tmp_path) as url:
        printed = run_demo(tmp_path, "--database", url, "--broker", broker)
    check_story(printed)
    assert f":{make_url(broker).password}@" not in printed
