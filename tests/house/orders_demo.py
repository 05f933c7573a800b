"""Running the orders demo and checking the story that it tells."""

import re
from pathlib import Path

from tests.house.programs import run_python

BILLING_KILLED = re.compile(r"Kill billing \(SIGKILL\) after \d+ of 300 invoices")


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
    assert BILLING_KILLED.search(printed)
    assert "placed 300 orders" in printed
    for name, count in (("stored", 600), ("published", 600), ("consumed", 900), ("dead-lettered", 1)):
        assert re.search(rf"{name}\s*│\s*{count} ", printed), name
    assert re.search(r"duplicated\s*│\s*[1-9]", printed), "the replay reaches shipping again"
    assert re.search(r"replayed\s*│\s*1 ", printed)
    assert "NO" not in re.findall(r"│\s*(yes|NO)\s*│", printed)
    assert "All sums agree" in printed
