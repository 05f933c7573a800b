"""The extras of the distribution bring what the libraries behind them need."""

import re
import tomllib
from importlib.metadata import requires

from tests.house.source import ROOT


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9_.-]", each, maxsplit=1)[0].lower() for each in requirements}


def test_the_redis_extra_brings_all_that_kombu_needs_for_redis() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = _names(project["optional-dependencies"]["redis"] + project["dependencies"])
    theirs = [each for each in requires("kombu") or () if re.search(r"extra == ['\"]redis['\"]", each)]
    assert theirs
    assert _names(theirs) <= ours
