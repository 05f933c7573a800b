"""An App tells what is wrong with its handlers of jobs, and with a process that would have none to run."""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from jobs import JobContext, JobOptionError, JobRegistry, JobsNotMappedError
from relay.app import App, AppConfigurationError, NothingToRunError
from relay.schema import add_messaging_tables
from uow.contracts import Contracts


async def render(context: JobContext) -> None:
    pass


def registry(*versions: int) -> JobRegistry:
    made = JobRegistry()
    for version in versions:
        made.handler("invoices.render", version=version)(render)
    return made


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, Any]:
    metadata = MetaData()
    add_messaging_tables(metadata)
    return {
        "engine": create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}"),
        "metadata": metadata,
        "contracts": Contracts(),
        "jobs": [registry(1), registry(2, 3)],
    }


def without_job_tables(parts: dict[str, Any]) -> dict[str, Any]:
    metadata = MetaData()
    add_messaging_tables(metadata, jobs=False)
    return parts | {"metadata": metadata}


def problems(parts: dict[str, Any], **changes: Any) -> tuple[str, ...]:
    with pytest.raises(AppConfigurationError) as caught:
        App(**(parts | changes))
    return caught.value.problems


def test_the_handlers_of_all_registries_are_those_of_the_app(parts: dict[str, Any]) -> None:
    assert [handler.key for handler in App(**parts).job_handlers] == [
        ("invoices.render", 1),
        ("invoices.render", 2),
        ("invoices.render", 3),
    ]


def test_two_handlers_of_one_name_and_version_are_refused(parts: dict[str, Any]) -> None:
    (problem,) = problems(parts, jobs=[registry(1, 2), registry(2)])
    assert problem.startswith("there is a handler invoices.render, version 2, already")


def test_what_is_no_registry_is_refused_with_all_other_faults(parts: dict[str, Any]) -> None:
    found = problems(parts, jobs=[render, registry(1), "invoices.render"], environment="x")
    assert len(found) == 3
    assert found[:2] == (
        "jobs must be JobRegistry objects, not function",
        "jobs must be JobRegistry objects, not str",
    )


def test_a_registry_in_place_of_a_list_of_them_is_refused(parts: dict[str, Any]) -> None:
    (problem,) = problems(parts, jobs=registry(1))
    assert "jobs=[registry]" in problem


def test_handlers_without_tables_of_jobs_are_refused(parts: dict[str, Any]) -> None:
    (problem,) = problems(without_job_tables(parts))
    assert "the metadata has no tables of jobs" in problem
    assert "add_messaging_tables(metadata)" in problem


async def test_without_tables_of_jobs_there_is_no_client_and_nothing_to_run(parts: dict[str, Any]) -> None:
    app = App(**without_job_tables(parts) | {"jobs": []})
    with pytest.raises(JobsNotMappedError):
        _ = app.jobs
    with pytest.raises(NothingToRunError):
        await app.run_jobs()


async def test_without_handlers_there_is_nothing_to_run(parts: dict[str, Any]) -> None:
    for given in ([], [JobRegistry()]):
        with pytest.raises(NothingToRunError, match=re.escape("App(..., jobs=[registry])")):
            await App(**parts | {"jobs": given}).run_jobs()


async def test_queues_that_no_job_can_be_in_are_refused(parts: dict[str, Any]) -> None:
    app = App(**parts)
    with pytest.raises(JobOptionError, match="a name in queues"):
        await app.run_jobs(queues=["no such queue!"])
    with pytest.raises(JobOptionError, match=re.escape("as in ('default',), not 'reports'")):
        await app.run_jobs(queues="reports")


def test_options_of_executors_are_read_from_mappings(parts: dict[str, Any]) -> None:
    options = {"executor": {"queues": "a,b", "queue_limits": "a=2", "concurrency": "7"}}
    read = App(**parts | {"options": options}).options.executor
    assert (read.queues, dict(read.queue_limits), read.concurrency) == (("a", "b"), {"a": 2}, 7)
    (problem,) = problems(parts, options={"executor": {"queue_limits": {"c": 1}}})
    assert "queue_limits names the queue 'c', which is not among the queues" in problem
