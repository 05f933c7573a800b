"""Modules declare schedules and what does their work; nothing is refused before all is put together."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast, get_type_hints

import pytest

from jobs.schedule.declaring.catalog import ScheduleCatalog
from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.executor import ScheduleExecutorError, executor_of
from jobs.schedule.declaring.module import DeclarationFields, ScheduleModule
from jobs.schedule.declaring.result import ScheduleResult
from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from uow.text import TextError

CONTEXT = cast("ScheduleContext", object())


async def cleanup(context: ScheduleContext) -> ScheduleResult:
    """Says that it saw its context."""
    return ScheduleResult.ok("seen" if context is CONTEXT else "another")


class Cleanup:
    async def execute(self, context: ScheduleContext) -> ScheduleResult | None:
        return await cleanup(context)


def test_a_declaration_needs_a_name_and_a_module_and_has_careful_defaults() -> None:
    declaration = ScheduleDeclaration(name="files.orphan-cleanup", module="files")
    assert (declaration.cron, declaration.interval, declaration.time_zone) == (None, None, "UTC")
    assert (declaration.enabled, declaration.critical) == (True, False)
    assert (declaration.misfire, declaration.misfire_grace) == (MisfirePolicy.LATEST, timedelta(minutes=1))
    assert (declaration.catch_up_limit, declaration.catch_up_age) == (100, timedelta(days=1))
    assert declaration.overlap is OverlapPolicy.SKIP
    assert (declaration.gap, declaration.fold) == (GapPolicy.RUN_AFTER, FoldPolicy.FIRST)
    assert (declaration.jitter, declaration.succeed_within) == (timedelta(0), None)
    assert (declaration.queue, declaration.max_attempts, declaration.priority) == ("default", 3, 0)


def test_a_declaration_never_changes_and_refuses_nothing_on_its_own() -> None:
    declaration = ScheduleDeclaration(name="", module="", cron="nonsense", interval=timedelta(-1))
    with pytest.raises(FrozenInstanceError):
        declaration.name = "other"  # type: ignore[misc]


def test_a_policy_given_by_its_text_becomes_that_policy() -> None:
    texts: dict[str, Any] = {"misfire": "catch_up", "overlap": "queue", "gap": "skip", "fold": "both"}
    declaration = ScheduleDeclaration(name="nightly", module="files", **texts)
    assert declaration.misfire is MisfirePolicy.CATCH_UP
    assert declaration.overlap is OverlapPolicy.QUEUE
    assert declaration.gap is GapPolicy.SKIP
    assert declaration.fold is FoldPolicy.BOTH


def test_the_short_form_takes_every_field_of_a_declaration() -> None:
    by_declaration = get_type_hints(ScheduleDeclaration)
    defaulted = {field.name: by_declaration[field.name] for field in fields(ScheduleDeclaration)}
    del defaulted["name"], defaulted["module"]
    assert get_type_hints(DeclarationFields) == defaulted


def test_the_short_form_declares_for_its_module_and_binds_the_function_unchanged() -> None:
    files = ScheduleModule("files")
    returned = files.schedule(name="files.cleanup", cron="0 4 * * *", critical=True)(cleanup)
    assert returned is cleanup
    assert files.declarations == (
        ScheduleDeclaration(name="files.cleanup", module="files", cron="0 4 * * *", critical=True),
    )
    assert files.executors == (("files.cleanup", cleanup),)


def test_a_declaration_is_a_constant_that_an_executor_is_bound_to_by_name() -> None:
    files = ScheduleModule("files")
    constant = ScheduleDeclaration(name="files.cleanup", module="files", cron="0 4 * * *")
    assert files.declare(constant) is constant
    assert files.executor(constant.name)(cleanup) is cleanup
    files.execute("files.other", Cleanup())
    assert files.declarations == (constant,)
    assert [name for name, _ in files.executors] == ["files.cleanup", "files.other"]


def test_the_name_of_a_schedule_is_never_that_of_a_function_or_a_class() -> None:
    with pytest.raises(TypeError, match="name"):
        ScheduleModule("files").schedule(cron="0 4 * * *")  # type: ignore[call-arg]

    async def renamed(context: ScheduleContext) -> None:
        """The same work under another name."""

    class Renamed(Cleanup):
        pass

    for work in (cleanup, renamed, Cleanup(), Renamed()):
        files = ScheduleModule("files")
        files.schedule(name="files.orphan-cleanup", cron="0 4 * * *")(work)
        assert list(ScheduleCatalog.compose([files])) == ["files.orphan-cleanup"]


@pytest.mark.parametrize(
    "work",
    [cleanup, partial(cleanup), Cleanup(), Cleanup().execute],
    ids=["function", "partial", "object", "method"],
)
async def test_async_functions_and_objects_with_execute_are_executors(work: object) -> None:
    assert await executor_of(work).execute(CONTEXT) == ScheduleResult.ok("seen")


def test_an_object_with_execute_is_its_own_executor() -> None:
    work = Cleanup()
    assert executor_of(work) is work


class SyncWork:
    def execute(self, context: object) -> None: ...


class GeneratorWork:
    async def execute(self, context: object) -> Any:
        yield context


class TwoArguments:
    async def execute(self, context: object, unit: object) -> None: ...


class NoMethod:
    execute = "no method"


async def no_arguments() -> None: ...


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Cleanup, "is a class; give an object of it"),
        (5, "an `async def function(context)` or an object with `async def execute(context)`, not int"),
        (NoMethod(), "`async def execute(context)`, not NoMethod"),
        (SyncWork(), "must be `async def` and must not yield"),
        (print, "must be `async def` and must not yield"),
        (GeneratorWork(), "must be `async def` and must not yield"),
        (TwoArguments(), "is called as execute(context), but missing a required argument: 'unit'"),
        (no_arguments, "is called as function(context), but too many positional arguments"),
    ],
)
def test_what_cannot_be_an_executor_is_refused_with_the_reason(work: object, reason: str) -> None:
    with pytest.raises(ScheduleExecutorError) as refused:
        executor_of(work)
    assert reason in str(refused.value)


def test_a_result_is_a_success_or_a_failure_with_a_code() -> None:
    assert ScheduleResult.ok() == ScheduleResult(succeeded=True)
    assert ScheduleResult.ok("12 files").summary == "12 files"
    failed = ScheduleResult.failed("bank.closed", "opens on Monday")
    assert (failed.succeeded, failed.code, failed.detail) == (False, "bank.closed", "opens on Monday")


@pytest.mark.parametrize("code", ["", " ", "x" * 65, None])
def test_a_failure_needs_a_code_that_can_be_stored(code: Any) -> None:
    with pytest.raises(TextError, match="code must"):
        ScheduleResult.failed(code)


def test_declaring_schedules_loads_no_cron_library() -> None:
    imported = "jobs.schedule.declaring.module, jobs.schedule.declaring.override"
    program = f"import sys, {imported}; sys.exit('croniter' in sys.modules)"
    home = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=home, check=False).returncode == 0
