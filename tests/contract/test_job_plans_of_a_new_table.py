"""The plans of what is done to single jobs while PostgreSQL knows nothing of the tables yet."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from jobs import AttemptReference, JobStore, Settlement
from jobs.table import SCOPE_INDEX
from tests.support.databases import engine_for, temporary_database_url
from tests.support.jobs import SCOPE, StoredJobs, submissions
from tests.support.plans import plans_of
from uow.sql.clock import DatabaseClock

Verb = Callable[[JobStore, Connection, list[AttemptReference]], Any]

VERBS: dict[str, Verb] = {
    "settling": lambda store, connection, attempts: store.settle_many(
        connection, [Settlement.succeed(attempt) for attempt in attempts]
    ),
    "renewing": lambda store, connection, attempts: store.renew(connection, attempts),
    "asking for the status": lambda store, connection, attempts: store.execution_status_many(
        connection, attempts
    ),
    "progress": lambda store, connection, attempts: store.progress(connection, attempts[0], 1),
    "finding": lambda store, connection, attempts: store.find(connection, SCOPE, attempts[0].job_id),
    "cancelling": lambda store, connection, attempts: store.cancel(connection, SCOPE, attempts[0].job_id),
}


@pytest.fixture
async def new(tmp_path: Path) -> AsyncIterator[StoredJobs]:
    """Tables that were made a moment ago, with jobs of one scope alone."""
    async with temporary_database_url("postgresql", tmp_path) as url, engine_for(url) as engine:
        yield await StoredJobs(engine, clock=DatabaseClock()).create()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("count", [20, 1000])
async def test_a_job_is_looked_up_by_its_key_and_never_among_all_of_its_scope(
    new: StoredJobs, verb: str, count: int
) -> None:
    await new.submit(*submissions(count))
    attempts = [job.reference for job in (await new.claim(limit=10)).started]
    plans = await plans_of(
        new.engine, lambda connection: VERBS[verb](new.store, connection, attempts), before=None
    )
    used = {node["Index Name"] for plan in plans for node in plan.nodes if "Index Name" in node}
    assert plans
    assert SCOPE_INDEX not in used
