"""The fixture `bench`: no jobs and no handlers yet, on each database; it needs that of `jobs_fixture`."""

from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.databases import engine_for
from tests.support.job_bench import NEVER, Bench
from uow.loop.supervision import LoopHealth


@pytest.fixture
async def bench(database_kind: str, jobs_url: Callable[[str], str]) -> AsyncIterator[Bench]:
    """An empty bench."""
    async with engine_for(jobs_url(database_kind), pool_size=20) as engine:
        made = Bench(engine)
        await made.clear()
        yield made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors that wait a twentieth of a second for a handler that was asked to end."""
    for module in ("runner", "executor"):
        monkeypatch.setattr(f"jobs.execution.{module}.PATIENCE_SECONDS", 0.05)


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle executors wait until they are woken."""
    monkeypatch.setattr("uow.loop.polling._SHORTEST_SECONDS", NEVER)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch, no_polling: None) -> Counter[str]:
    """How many rounds each loop has finished, where idle ones wait until they are woken."""
    finished: Counter[str] = Counter()
    tick = LoopHealth.tick

    def count(health: LoopHealth) -> None:
        finished[health.name] += 1
        tick(health)

    monkeypatch.setattr(LoopHealth, "tick", count)
    return finished
