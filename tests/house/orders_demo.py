"""Running the orders demo and checking the story that it tells."""

import re
from pathlib import Path

from tests.house.programs import run_python

BILLING_KILLED = re.compile(r"Kill billing \(SIGKILL\) after \d+ of 300 invoices")
EXECUTOR_KILLED = re.compile(r"Kill executor-1 \(SIGKILL\): jobs done [1-9]\d*, in its hands (\d+)")

COUNTS = {
    "stored": 600,
    "published": 600,
    "consumed": 900,
    "dead-lettered": 1,
    "staged": 300,
    "succeeded": 300,
    "renderings": 300,
}


def run_demo(directory: Path, *arguments: str) -> str:
    return run_python(
        "-m",
        "examples.orders.demo",
        "--directory",
        str(directory),
        *arguments,
        directory=directory,
        timeout_seconds=280,
    )


def check_story(printed: str) -> None:
    assert BILLING_KILLED.search(printed)
    in_its_hands = EXECUTOR_KILLED.search(printed)
    lost = re.search(r"attempts lost\s*│\s*(\d+) ", printed)
    assert in_its_hands
    assert lost
    assert int(lost[1]) >= int(in_its_hands[1]) > 0
    assert "placed 300 orders" in printed
    for name, count in COUNTS.items():
        assert re.search(rf"{name}\s*│\s*{count} ", printed), name
    assert re.search(r"duplicated\s*│\s*[1-9]", printed), "the replay reaches shipping again"
    assert re.search(r"replayed\s*│\s*1 ", printed)
    assert "NO" not in re.findall(r"│\s*(yes|NO)\s*│", printed)
    assert re.search(r"Schedule 'orders.clean-up' runs once more: run [0-9a-f-]{36}\.", printed)
    assert re.search(r"clean-ups\s*│\s*1 ", printed)
    assert "All sums agree" in printed
