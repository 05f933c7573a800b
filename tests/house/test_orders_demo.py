"""The orders example, with its processes, its kill and its operator, as `make demo` runs it."""

import re
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.house.programs import run_python
from tests.support.databases import temporary_database_url
from tests.support.services import RABBITMQ

BILLS_KILLED = re.compile(r"Kill billing \(SIGKILL\) after \d+ of 300 invoices")


@pytest.mark.timeout(180)
def test_the_demo_ends_with_agreeing_sums_on_sqlite_without_a_broker(tmp_path: Path) -> None:
    printed = run_demo(tmp_path)
    check_story(printed)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
async def test_the_demo_ends_with_agreeing_sums_on_servers(kind: str, tmp_path: Path) -> None:
    broker = RABBITMQ.require()
    async with temporary_database_url(kind, tmp_path) as url:
        printed = run_demo(tmp_path, "--database", url, "--broker", broker)
    check_story(printed)
    password = make_url(broker).password
    assert f":{password}@" not in printed


def run_demo(directory: Path, *arguments: str) -> str:
    return run_python(
        "-m",
        "examples.orders.demo",
        "--directory",
        str(directory),
        *arguments,
        directory=directory,
        timeout_seconds=170,
    )


def check_story(printed: str) -> None:
    assert BILLS_KILLED.search(printed)
    assert "placed 300 orders" in printed
    for name, count in (("stored", 600), ("published", 600), ("consumed", 900), ("dead-lettered", 1)):
        assert re.search(rf"{name}\s*│\s*{count} ", printed), name
    assert re.search(r"duplicated\s*│\s*[1-9]", printed), "the replay reaches shipping again"
    assert re.search(r"replayed\s*│\s*1 ", printed)
    assert "NO" not in re.findall(r"│\s*(yes|NO)\s*│", printed)
    assert "All sums agree" in printed
