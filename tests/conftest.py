"""Fixtures that all suites share."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.databases import KINDS, engine_for, temporary_database_url

# A busy machine makes single examples slow; that says nothing about the code.
settings.register_profile("selfmanaged", deadline=None)
settings.load_profile("selfmanaged")


@pytest.fixture(params=KINDS)
def database_kind(request: pytest.FixtureRequest) -> str:
    """Each supported database in turn; a test that depends on it runs once on each."""
    return str(request.param)


@pytest.fixture
async def database_url(database_kind: str, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database of that kind, dropped after the test."""
    async with temporary_database_url(database_kind, tmp_path) as url:
        yield url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on that database."""
    async with engine_for(database_url) as engine:
        yield engine


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason to skip, such as a server that is away, with the number of tests."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, count in Counter(str(report.longrepr[2]) for report in skipped).most_common():
        terminalreporter.write_line(f"skipped {count} tests: {reason.removeprefix('Skipped: ')}", yellow=True)
